import { expect, test } from 'vitest';
import { usedBetween } from '../../bench/throughput/commands.ts';
import { makeJobs } from '../../bench/throughput/jobs.ts';
import { measure } from '../../bench/throughput/measure.ts';
import { figuresOf, jsonOf } from '../../bench/throughput/results.ts';
import type { Run } from '../../bench/throughput/run.ts';
import { CASES } from '../../bench/throughput/case.ts';
import { parseNotification } from '../../src/domain/notification.ts';
import { startProcess } from '../support/process.ts';

const FIGURES = CASES.flatMap(({ platform, suffix }) =>
  ['VsPlain', 'PerSecond', 'PlainPerSecond'].map((what) => `${platform}${what}${suffix}`),
);

test(
  'the smallest run measures both workers in every case, and every alert arrives',
  { timeout: 180_000 },
  async () => {
    const said: string[] = [];
    const done: number[] = [];
    const results = await measure({
      ...{ pairs: 1, jobs: 200, warmUp: 50, counted: 50 },
      say: (line) => said.push(line),
      onRun: (run) => done.push(run),
    });
    const json = jsonOf(results, true);
    for (const key of [...FIGURES, 'redisCommandsPerJob', 'plainRedisCommandsPerJob', 'seconds']) {
      expect.soft(json[key], key).toSatisfy((value) => Number.isFinite(value) && Number(value) > 0);
    }
    expect(json).toMatchObject({ suite: 'throughput', quick: true, pairs: 1, jobs: 200 });
    expect(json['alertsEnqueued']).toBe(CASES.length * 2 * 200);
    expect(json['alertsAccepted']).toBe(json['alertsEnqueued']);
    // BullMQ ends a job and takes the next one in one command, and so few jobs are each taken by one more; the scripts
    // behind them run more than ten.
    expect(json['plainRedisCommandsPerJob']).toBeGreaterThanOrEqual(1);
    expect(json['plainRedisCommandsPerJob']).toBeLessThan(5);
    expect(done).toEqual(CASES.flatMap(() => [1, 2]));
    expect(said).toEqual(
      expect.arrayContaining(CASES.map(({ name }) => `${name}: 1 pairs of runs with 200 jobs each`)),
    );
  },
);

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
  expect(new Set(jobs.map(({ devices }) => devices[0]?.token)).size).toBe(1_000);
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
  const args = ['bench/bench.ts', 'limiter', '--profile', 'profiles'];
  const { code, stderr } = await startProcess({ args }).waitForExit();
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toContain('error: --profile: expected the suite throughput, found limiter');
});
