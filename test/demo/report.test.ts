import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { main } from '../../demo/demo.ts';
import { countResult } from '../../demo/counts.ts';
import { readMorning } from '../../demo/morning.ts';
import type { DemoDeadLetter } from '../../demo/queue.ts';
import { teachersOf, type Findings } from '../../demo/drawing.ts';
import { renderReport } from '../../demo/report.ts';
import { renderDeadLetters, renderEnding, renderTimeline } from '../../demo/show.ts';
import { checkDeadLetters, machineChecks, promises } from '../../demo/verdict.ts';
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

test('a broken promise is named in words, not by colour alone', () => {
  const good = findings();
  const broken = [
    { what: 'lost', found: '0', ok: true },
    { what: 'gap violations', found: '2', ok: false },
  ];
  const page = renderReport({ ...good, promises: broken });
  expect(page).toContain('FAIL: 1 of 2 promises were broken.');
  expect(page).toMatch(/>FAIL<\/b><span>gap violations: 2<\/span>/);
});

test('the verdict is the last line, and what the machine did stands apart from the promises', () => {
  const good = { ...findings(), promises: [{ what: 'lost', found: '0', ok: true }] };
  const lines = renderEnding(good).split('\n');
  expect(lines.at(-1)).toBe('PASS: all 1 promises were kept.');
  const machine = lines.slice(lines.indexOf('This machine'));
  expect(machine).toContain('      2 wake-ups later than the tolerance of 90 ms, the latest by 310 ms');
  expect(lines.indexOf('ok    lost: 0')).toBeLessThan(lines.indexOf('This machine'));
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(80);
  const unexplained = good.machine.map((check) => ({ ...check, ok: false }));
  expect(
    renderEnding({ ...good, machine: unexplained })
      .split('\n')
      .at(-1),
  ).toMatch(/^FAIL: the promises were kept, but/);
  expect(renderReport(good)).toContain('<li>2 wake-ups later than the tolerance of 90 ms, the latest by 310 ms</li>');
});

test('a window is full from the alert that fills it until the next one may come', () => {
  const busy = teachersOf(findings()).find(({ recipientId }) => recipientId === 'busy');
  expect(busy?.full).toEqual([{ fromMs: 260, toMs: 1_050, rule: '3/1s' }]);
  expect(busy?.idealMs).toEqual([50, 150, 250, 1_050]);
});

test('a path that cannot be written is refused before any work', async () => {
  const folder = await temporaryFolder();
  const file = join(folder, 'a-file');
  await writeFile(file, '');
  const missing = join(folder, 'missing', 'report.html');
  for (const [path, found] of [
    [missing, `the folder ${JSON.stringify(join(folder, 'missing'))} does not exist`],
    [folder, 'a folder'],
    [join(file, 'report.html'), `the folder ${JSON.stringify(file)} does not exist`],
    ['', 'an empty name'],
  ] as const) {
    const { code, stdout, stderr } = await runMain(main, ['--report', path]);
    expect({ code, stdout, stderr }).toEqual({
      code: 2,
      stdout: '',
      stderr: `error: --report: expected a file that can be written, found ${JSON.stringify(path)}: ${found}\n`,
    });
  }
});

test('the timeline fits the terminal, and every alert is counted in it', () => {
  const { arrivals, policy } = findings();
  for (const [columns, widest] of [
    [80, 80],
    [60, 60],
    [undefined, 100],
  ] as const) {
    const [, head = '', ...rows] = renderTimeline(
      arrivals.filter(({ recipientId }) => recipientId !== HOSTILE),
      policy,
      columns,
    ).split('\n');
    expect(rows.map((row) => row.split(' ')[0])).toEqual(['busy', 'retried']);
    for (const line of [head, ...rows]) expect(line.length).toBeLessThanOrEqual(widest);
    const drawn = Array.from(rows[0]?.split(/ +/)[1] ?? '').filter((mark) => mark !== '·');
    expect(drawn.reduce((sum, mark) => sum + Number(mark), 0)).toBe(4);
  }
});

test('dead letters are shown under their reasons, the largest group first, and fit the terminal', () => {
  const letters: DemoDeadLetter[] = [
    { id: 'b', recipientId: 'teacher-1', reason: 'unregistered', message: 'Unregistered' },
    { id: 'c', recipientId: null, reason: 'invalid', message: `devices: ${'x'.repeat(200)}` },
    { id: 'a', recipientId: 'teacher-2', reason: 'invalid', message: 'priority: \u001b' },
  ];
  const lines = renderDeadLetters(letters, 80).split('\n');
  expect(lines[0]).toBe('Dead letters: 3, each with its reason');
  expect(lines.slice(1).map((line) => line.replace(/: .*/, '').trimEnd())).toEqual([
    '  2 invalid',
    '    a  teacher-2  priority',
    '    c  -          devices',
    '  1 unregistered',
    '    b  teacher-1  Unregistered',
  ]);
  expect(lines.find((line) => line.startsWith('    c'))).toHaveLength(80);
  expect(lines.join('')).not.toContain('\u001b');
});

test('the dead letters of the morning are judged by notification and reason', () => {
  const morning = readMorning();
  const expected = [
    ...morning.malformed.map(({ id }) => [id, 'invalid'] as const),
    ...['morning-102', 'morning-106', 'morning-214'].map((id) => [id, 'bad-token'] as const),
    ...['morning-021', 'morning-351'].map((id) => [id, 'unregistered'] as const),
  ];
  const letters = expected.map(([id, reason]): DemoDeadLetter => ({ id, reason, recipientId: null, message: '' }));
  expect(checkDeadLetters(letters, morning)).toMatchObject({ found: '10 of 10', ok: true });
  const [first, ...rest] = letters;
  expect(checkDeadLetters(rest, morning)).toMatchObject({ found: '9 of 10', ok: false });
  const stalled: DemoDeadLetter = { id: first?.id ?? '', reason: 'stalled', recipientId: null, message: '' };
  expect(checkDeadLetters([...rest, stalled], morning)).toMatchObject({ found: '9 of 10, and 1 others', ok: false });
});
