import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { expectSelfContained, expectWellFormed } from '../../support/markup.ts';
import { startProcess } from '../../support/process.ts';

interface Demo {
  readonly result: Record<string, number>;
  readonly deadLetters: readonly {
    readonly id: string;
    readonly recipientId: string | null;
    readonly reason: string;
  }[];
  readonly report: string;
  readonly code: number | null;
}

async function runDemo(): Promise<Demo> {
  const folder = await mkdtemp(join(tmpdir(), 'pushpacer-demo-'));
  const file = join(folder, 'report.html');
  const args = ['demo/demo.ts', '--json', '--report', file];
  const { code, stdout, stderr } = await startProcess({ args }).waitForExit(120_000);
  expect(stdout, stderr).toContain('"notifications"');
  const report = await readFile(file, 'utf8');
  await rm(folder, { recursive: true });
  const printed = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number> &
    Pick<Demo, 'deadLetters'>;
  const { deadLetters, ...result } = printed;
  return { result, deadLetters, report, code };
}

it('the demo keeps every promise, as counted at the providers', async () => {
  const { result, deadLetters, report, code } = await runDemo();
  expect(result).toMatchObject({
    notifications: 440,
    delivered: 415,
    deadLettered: 10,
    expired: 3,
    dropped: 1,
    canceled: 4,
    merged: 4,
    superseded: 3,
    lost: 0,
    duplicates: 0,
    gapViolations: 0,
    windowViolations: 0,
    backgroundPushes: 15,
    backgroundViolations: 0,
    workers: 4,
    replayed: 1,
  });
  expect(Object.groupBy(deadLetters, ({ reason }) => reason)).toMatchObject({
    invalid: { length: 5 },
    'bad-token': { length: 3 },
    unregistered: { length: 2 },
  });
  for (const { recipientId } of deadLetters) expect(recipientId).toMatch(/^teacher-/);
  expectWellFormed(report);
  expectSelfContained(report);
  expect(report.match(/<li class="lane">/g)).toHaveLength(20);
  expect(report.match(/<line class="arrived" [^>]*><title>morning-/g)?.length).toBeGreaterThanOrEqual(392);
  expect(code).toBe(0);
}, 300_000);
