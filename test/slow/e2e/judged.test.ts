import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it, describe } from 'vitest';
import { demo } from '../../../demo/demo.ts';
import type { Policy } from '../../../src/domain/limits.ts';
import { JOB, PRIORITY } from '../../../src/queue/names.ts';
import { runBurst } from '../../support/burst.ts';
import { startBusyLoops } from '../../support/busy.ts';
import { runMain } from '../../support/command.ts';
import { expectSelfContained, expectWellFormed } from '../../support/markup.ts';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';

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
  const file = join(await temporaryFolder(), 'report.html');
  const args = ['demo/demo.ts', '--json', '--report', file];
  const { code, stdout, stderr } = await startProcess({ args }).waitForExit(120_000);
  expect(stdout, stderr).toContain('"notifications"');
  const report = await readFile(file, 'utf8');
  const printed = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number> &
    Pick<Demo, 'deadLetters'>;
  const { deadLetters, ...result } = printed;
  return { result, deadLetters, report, code };
}

it('the demo keeps every promise, as counted at the providers', async () => {
  const { result, deadLetters, report, code } = await runDemo();
  expect(result).toMatchObject({
    notifications: 440,
    deadLettered: 10,
    expired: 3,
    dropped: 1,
    canceled: 4,
    merged: 4,
    lost: 0,
    duplicates: 0,
    gapViolations: 0,
    windowViolations: 0,
    backgroundPushes: 15,
    backgroundViolations: 0,
    workers: 4,
    replayed: 1,
  });
  // Of five scores of a match the last one arrives, and one before it, unless another worker asks for the last one first.
  const { delivered = NaN, superseded = NaN } = result;
  expect([3, 4]).toContain(superseded);
  expect(delivered + superseded).toBe(418);
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

it('nothing is lost, doubled without a reason or burst upon anybody, whatever fails', async () => {
  const args = ['chaos/chaos.ts', '--seconds', '20', '--seed', '1', '--json'];
  const { code, stdout, stderr } = await startProcess({ args }).waitForExit(240_000);
  expect(stdout, stderr).toContain('"notifications"');
  const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number>;
  expect(result, stderr).toMatchObject({
    notifications: 6_667,
    lost: 0,
    unaccounted: 0,
    stillQueued: 0,
    gapViolations: 0,
    windowViolations: 0,
    unknownRequests: 0,
    breakersByOneDevice: 0,
    unexplainedDuplicates: 0,
    changedIds: 0,
    secretsLeaked: 0,
    processesLeft: 0,
    crashes: 0,
  });
  expect(code, stderr).toBe(0);
}, 300_000);

/** What is broken is found, also on a machine that has no processor to spare; what is only late is not taken for broken. */

const policy: Policy = { rules: [{ max: 6, perMs: 2_000 }], minGapMs: 200 };
const burst = { workers: 2, count: 24, policy };

describe('beside busy loops', () => {
  it('workers without a gap break it', async () => {
    startBusyLoops(2);
    const { verdict } = await runBurst({ ...burst, kept: { ...policy, minGapMs: 0 } });
    expect(verdict.gapViolations).toBeGreaterThan(0);
    expect(verdict).toMatchObject({ windowViolations: 0, duplicates: 0 });
  }, 120_000);

  it('workers that give one slot too many break the window', async () => {
    startBusyLoops(2);
    const { verdict } = await runBurst({ ...burst, kept: { ...policy, rules: [{ max: 7, perMs: 2_000 }] } });
    expect(verdict.windowViolations).toBeGreaterThan(0);
    expect(verdict).toMatchObject({ gapViolations: 0, maxInWindow: 7, duplicates: 0 });
  }, 120_000);

  it('limits that are kept are found kept, and a job that is dropped, and one that is sent again, are missed and found', async () => {
    startBusyLoops(2);
    const { verdict, delivered } = await runBurst({
      ...burst,
      meddle: async (queue) => {
        const last = await queue.getJob('burst-23');
        await expect.poll(() => last?.getState(), { timeout: 30_000 }).toBe('delayed');
        await queue.remove('burst-23');
        const first = await queue.getJob('burst-0');
        const again = { ...(first?.data as object), id: 'again' };
        await queue.add(JOB, again, { jobId: 'again', priority: PRIORITY.normal });
      },
    });
    expect(delivered.size).toBe(23);
    expect(delivered).not.toContain('burst-23');
    expect(verdict).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 1 });
  }, 120_000);

  it('the demo counts each limit that its workers break, and fails', async () => {
    startBusyLoops(1);
    const limits = { LIMIT_MIN_GAP: '0ms', LIMIT_RULES: '11/3s,20/8s', LIMIT_BACKGROUND_RULES: '15/8s' };
    const main = async () => void (process.exitCode = await demo({ json: true, limits }));
    const { code, stdout } = await runMain(main, []);
    expect(code).toBe(1);
    const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, number>;
    for (const field of ['gapViolations', 'windowViolations', 'backgroundViolations'])
      expect(result[field], field).toBeGreaterThan(0);
    expect(result).toMatchObject({ lost: 0, duplicates: 0, workers: 4 });
  }, 180_000);
});
