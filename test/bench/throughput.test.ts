import { expect, test } from 'vitest';
import { tokenOf } from '../../src/domain/device.ts';
import { main } from '../../bench/bench.ts';
import { usedBetween } from '../../bench/throughput/commands.ts';
import { makeJobs } from '../../bench/throughput/jobs.ts';
import { figuresOf } from '../../bench/throughput/results.ts';
import type { Run } from '../../bench/throughput/run.ts';
import { CASES } from '../../bench/throughput/case.ts';
import { parseNotification } from '../../src/domain/notification.ts';
import { runMain } from '../support/command.ts';

test('a ratio is the median of the pairs, each run over the one beside it', () => {
  const runs = (rates: readonly number[]): Run[] =>
    rates.map((perSecond) => ({
      perSecond,
      accepted: 1,
      providersBusy: 0.5,
      cpuMsPerJob: 1,
      commands: new Map(),
      commandsPerJob: 3,
    }));
  const [measured] = CASES;
  if (measured === undefined) throw new Error('no case');
  const figures = figuresOf({ case: measured, plain: runs([100, 200, 400]), pushpacer: runs([50, 50, 300]) });
  expect(figures).toMatchObject({
    ratio: 0.5,
    least: 0.25,
    most: 0.75,
    plainPerSecond: 200,
    perSecond: 50,
    commands: 3,
  });
});

test.each(['apns', 'fcm'] as const)('the jobs for %s are notifications, each to a recipient of its own', (platform) => {
  const jobs = makeJobs(platform, 'measured', 1_000);
  for (const job of jobs) expect(parseNotification(job)).toMatchObject({ ok: true });
  expect(new Set(jobs.map(({ recipientId }) => recipientId)).size).toBe(1_000);
  expect(new Set(jobs.map(({ devices }) => devices.map(tokenOf).join())).size).toBe(1_000);
});

test('what was used between two looks is told, the most used first', () => {
  const before = new Map([
    ['info', { calls: 1, micros: 5 }],
    ['evalsha', { calls: 10, micros: 100 }],
  ]);
  const after = new Map([
    ['info', { calls: 1, micros: 5 }],
    ['evalsha', { calls: 12, micros: 130 }],
    ['zadd', { calls: 7, micros: 9 }],
  ]);
  expect([...usedBetween(before, after)]).toEqual([
    ['zadd', { calls: 7, micros: 9 }],
    ['evalsha', { calls: 2, micros: 30 }],
  ]);
});

test('only a suite that can be profiled takes --profile', async () => {
  const { code, stderr } = await runMain(main, ['limiter', '--profile', 'profiles']);
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toContain('error: --profile: expected the suite throughput, found limiter');
});
