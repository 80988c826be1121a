import { expect, test } from 'vitest';
import { asksUntilAllPassed } from '../../bench/limiter/blocked.ts';
import { createCase, expectAnswer } from '../../bench/limiter/case.ts';
import { compare, middleOf } from '../../bench/limiter/paired.ts';
import { IN_FLIGHT, pump } from '../../bench/limiter/pump.ts';
import { startProcess } from '../support/process.ts';

const QUICK = ['bench/bench.ts', 'limiter', '--quick', '--runs', '2', '--seconds', '0.02'];

/** What needs no rival, and what is null without one. */
const OURS = ['vsSet', 'mbFor100kx60', 'bytesWith10', 'bytesWith60', 'asksFor50', 'asksFor200', 'asksFor1000'];
const BESIDE_RIVALS = [
  'vsRateLimiterFlexible',
  'vsRateLimiterFlexibleSingle',
  'twoWindowsVsRateLimiterFlexible',
  'vsRollingRateLimiter',
  'bytesVsRollingRateLimiter',
  ...['rollingRateLimiter', 'rateLimiterFlexible'].flatMap((rival) =>
    ['MbFor100kx60', 'BytesWith10', 'BytesWith60', 'AsksFor50', 'AsksFor200', 'AsksFor1000'].map(
      (field) => `${rival}${field}`,
    ),
  ),
];

test('a quick run measures ours and SET, prints every field, and keeps progress off standard output', async () => {
  const { code, stdout, stderr } = await startProcess({ args: [...QUICK, '--json'] }).waitForExit();
  expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('limiter: warming up') as string });
  const lines = stdout.trimEnd().split('\n');
  const result = JSON.parse(lines.at(-1) ?? '') as Record<string, unknown>;
  for (const field of OURS) expect.soft(result[field], field).toBeGreaterThan(0);
  for (const field of BESIDE_RIVALS) expect.soft(result[field], field).toBeNull();
  expect(Object.keys(result)).toEqual(expect.arrayContaining(['suite', 'quick', 'seconds', 'spread', 'versions']));
  const cases = result['cases'] as { name: string; asksPerSecond: number; microsInRedis: number }[];
  expect(cases.map(({ name }) => name)).toEqual([
    'plain SET',
    ...['first ask', 'admitted, one rule'].map((name) => `pushpacer, ${name}`),
    ...['10/1m and a gap', '10/1m and 100/1h'].map((rules) => `pushpacer, admitted, two rules (${rules})`),
    'pushpacer, admitted, two scopes of two rules',
    'pushpacer, blocked, and a slot reserved',
    'pushpacer, returning at its slot',
  ]);
  for (const { asksPerSecond, microsInRedis } of cases) {
    expect(asksPerSecond).toBeGreaterThan(0);
    expect(microsInRedis).toBeGreaterThan(0);
  }
  // Neither depends on how busy the machine is.
  expect(result['asksFor1000']).toBeLessThanOrEqual(2_010);
  expect(result['bytesWith10']).toBeLessThan(1_000);
});

test('--markdown prints the tables for the docs', async () => {
  const { code, stdout } = await startProcess({ args: [...QUICK, '--markdown'] }).waitForExit();
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\| two rules, admitted +\| +measured \|/);
  expect(stdout).toMatch(/^\| plain SET +\| +[\d,]+ \| +1\.00 \|/m);
  expect(stdout).toContain('A quick check, no measurement.');
});

test.each([
  [['unheard-of'], 'error: suite: expected one of limiter, throughput, found "unheard-of"'],
  [['limiter', '--runs', '1'], 'error: --runs: expected an integer from 2 to 1000, found "1"'],
  [['limiter', '--runs', '2.5'], 'error: --runs: expected an integer from 2 to 1000, found "2.5"'],
  [['limiter', '--seconds', 'long'], 'error: --seconds: expected a number from 0.02 to 60, found "long"'],
])('%j is bad usage', async (flags, message) => {
  const { code, stdout, stderr } = await startProcess({ args: ['bench/bench.ts', ...flags] }).waitForExit();
  expect({ code, stdout, stderr }).toMatchObject({ code: 2, stdout: '' });
  expect(stderr).toContain(message);
});

test('asks go out in order, with as many in flight as promised', async () => {
  const started: number[] = [];
  let inFlight = 0;
  let most = 0;
  await pump(300, async (index) => {
    started.push(index);
    inFlight += 1;
    most = Math.max(most, inFlight);
    await Promise.resolve();
    inFlight -= 1;
  });
  expect(started).toEqual(Array.from({ length: 300 }, (_, index) => index));
  expect(most).toBe(IN_FLIGHT);
});

test('a case takes new recipients through all of its steps, each slice anew', async () => {
  const steps = new Map<string, number[]>();
  const measured = createCase({
    name: 'steps',
    commands: [],
    before: 1,
    measured: 2,
    ask(recipientId, step) {
      steps.set(recipientId, [...(steps.get(recipientId) ?? []), step]);
      return Promise.resolve();
    },
  });
  for (let slice = 0; slice < 2; slice += 1) {
    await measured.prepare(600);
    for (let ask = 0; ask < 600; ask += 1) await measured.ask();
  }
  expect(steps.size).toBe(600);
  expect(new Set([...steps.values()].map((taken) => taken.join()))).toEqual(new Set(['0,1,2']));
});

test('a case that measures something else than it says ends the run', async () => {
  const lying = createCase({
    name: 'lying',
    commands: [],
    before: 0,
    measured: 1,
    ask: async (_recipientId, step) => {
      await Promise.resolve();
      expectAnswer('lying', 'admitted', step === 0 ? 'blocked' : 'admitted');
    },
  });
  const runner = { measured: lying, asks: 10 };
  await expect(compare(runner, runner, 2)).rejects.toThrow(
    'lying: expected each ask to be admitted, found one blocked',
  );
});

test('a ratio is the median of its runs, with the middle half of them', () => {
  expect(middleOf([5, 1, 3, 2, 4])).toEqual({ median: 3, lowerQuartile: 2, upperQuartile: 4 });
  expect(middleOf([1, 2])).toEqual({ median: 1.5, lowerQuartile: 1.25, upperQuartile: 1.75 });
});

test.each([3, 50])('%i jobs that are all told the same wait ask N(N+1)/2 times', async (jobs) => {
  let freeAt = 1_000;
  const asks = await asksUntilAllPassed(jobs, 1_000, (_job, nowMs) => {
    if (nowMs < freeAt) return Promise.resolve(freeAt - nowMs);
    freeAt = nowMs + 200;
    return Promise.resolve(undefined);
  });
  expect(asks).toBe((jobs * (jobs + 1)) / 2);
});

test('jobs that are each told a slot of their own ask 2N - 1 times, and a wait that is none is a fault', async () => {
  const slotOf = (job: number): number => 1_000 + 200 * job;
  const asks = await asksUntilAllPassed(50, 1_000, (job, nowMs) =>
    Promise.resolve(nowMs < slotOf(job) ? slotOf(job) - nowMs : undefined),
  );
  expect(asks).toBe(99);
  await expect(asksUntilAllPassed(1, 0, () => Promise.resolve(0))).rejects.toThrow('found a wait of 0 ms');
});
