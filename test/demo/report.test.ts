import { join } from 'node:path';
import { expect, test } from 'vitest';
import { main } from '../../demo/demo.ts';
import { countResult } from '../../demo/counts.ts';
import type { DemoDeadLetter } from '../../demo/queue.ts';
import { type Findings } from '../../demo/drawing.ts';
import { renderReport } from '../../demo/report.ts';
import { machineChecks, promises } from '../../demo/verdict.ts';
import type { Arrival } from '../../sandbox/judge.ts';
import { runMain } from '../support/command.ts';
import { expectSelfContained, expectWellFormed } from '../support/markup.ts';
import { temporaryFolder } from '../support/program.ts';

const HOSTILE = `t<script>alert("1")</script>&'\u001b[31m`;
const POLICY = { rules: [{ max: 3, perMs: 1_000 }], minGapMs: 100 };
const START = 1_795_000_000_000;

/** Four teachers: one with a full window, one with a hostile name, one without an alert, one whose first alert was refused. */
function findings(): Findings {
  const enqueued = { busy: 4, [HOSTILE]: 1, silent: 1, retried: 1 };
  const valid = Object.entries(enqueued).flatMap(([recipientId, count]) =>
    Array.from({ length: count }, (_, index) => ({
      id: `${recipientId}-${index}`,
      recipientId,
      devices: [{ platform: 'fcm' as const, token: `token-of-${recipientId}` }],
      alert: { title: 'Room 12' },
    })),
  );
  const arrival = (recipientId: string, index: number, afterMs: number): Arrival => ({
    recipientId,
    notificationId: `${recipientId}-${index}`,
    device: `token-of-${recipientId}`,
    at: START + afterMs,
  });
  const busy = [50, 150, 260, 1_060].map((afterMs, index) => arrival('busy', index, afterMs));
  const arrivals = [...busy, arrival(HOSTILE, 0, 70), arrival('retried', 0, 900)];
  const letters: DemoDeadLetter[] = [
    { id: 'silent-0', recipientId: 'silent', reason: 'unregistered', message: 'Unregistered' },
    { id: 'bad<b>', recipientId: null, reason: 'invalid', message: 'found "<img src=x>"' },
  ];
  const malformed = [{ id: 'bad<b>' }];
  const ids = [...valid, ...malformed].map(({ id }) => id);
  const endings = { completed: [], deadLettered: letters.map(({ id }) => id) };
  const policies = { alerts: POLICY, pushes: POLICY };
  const workers = { workers: 4, lateWakes: 2, mostLateMs: 310, lateToleranceMs: 90, standstills: 0 };
  const result = countResult(ids, { alerts: arrivals, silent: [], pushes: [] }, endings, policies, workers);
  return {
    policy: POLICY,
    result,
    promises: promises(result),
    machine: machineChecks(result, POLICY),
    letters,
    arrivals,
    refusals: [{ ...arrival('retried', 0, 60), answer: '503 ServiceUnavailable' }],
    expired: [],
    morning: { valid, malformed },
    enqueuedAt: START,
    enqueuingMs: 12,
    longestStallMs: 0,
  };
}

test('the report draws every teacher and every alert, well formed, escaped and without anything from elsewhere', () => {
  const page = renderReport(findings());
  expectWellFormed(page);
  expectSelfContained(page);
  expect(page).not.toContain('<script');
  expect(page).not.toContain('<img');
  expect(page).not.toContain('\u001b');
  expect(page).not.toContain('token-of');
  expect(page).toContain('t&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;\\u{1b}[31m');
  expect(page.match(/<li class="lane">/g)).toHaveLength(4);
  expect(page.match(/<line class="arrived" x1="[\d.]+%" x2="[\d.]+%" y1="\d+" y2="\d+"><title>/g)).toHaveLength(6);
  expect(page).toContain('busy-1: arrived at 0.150 s, 100 ms after the one before; ideal 0.150 s');
  expect(page).toContain('retried-0: refused at 0.060 s (503 ServiceUnavailable)');
  expect(page).toContain('silent: no alert, 1 dead letter');
  expect(page).toMatch(/<b>1 unregistered<\/b>: the app is gone/);
});

test('a path that cannot be written is refused before any work', async () => {
  const folder = await temporaryFolder();
  const missing = join(folder, 'missing');
  for (const [path, found] of [
    [join(missing, 'report.html'), `the folder ${JSON.stringify(missing)} does not exist`],
    [folder, 'a folder'],
    ['', 'an empty name'],
  ] as const) {
    const stderr = `error: --report: expected a file that can be written, found ${JSON.stringify(path)}: ${found}\n`;
    expect(await runMain(main, ['--report', path])).toEqual({ code: 2, stdout: '', stderr });
  }
});
