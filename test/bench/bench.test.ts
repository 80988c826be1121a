import { describe, expect, test } from 'vitest';
import { makeBurst } from '../../bench/alternatives/run.ts';
import { figuresOf as figuresOfBurst } from '../../bench/alternatives/suite.ts';
import { main } from '../../bench/bench.ts';
import { failureOf, isOff, type Check } from '../../bench/capacity/check.ts';
import { createCase, expectAnswer } from '../../bench/limiter/cases.ts';
import { compare } from '../../bench/limiter/speed.ts';
import * as figures from '../../bench/pacing/figures.ts';
import { countsFault, readCounts } from '../../bench/throughput/counts.ts';
import { type Run } from '../../bench/throughput/run.ts';
import { figuresOf as figuresOfPairs } from '../../bench/throughput/suite.ts';
import { runMain } from '../support/command.ts';

test('the command prints its help, and refuses a suite that there is not before any work', async () => {
  expect(await runMain(main, ['--help'])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Usage: bench') as string,
  });
  const { code, stdout, stderr } = await runMain(main, ['unheard-of']);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain('error: suite: expected one of limiter, throughput, capacity');
});

test('limiter: a case that measures something else than it says ends the run', async () => {
  const lying = createCase({
    ...{ name: 'lying', commands: [], before: 0, measured: 1 },
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

describe('throughput', () => {
  test('counts are compared with the page, in both directions', async () => {
    const page = await readCounts();
    expect(countsFault(page, page)).toBeUndefined();
    const near = { ...page, commands: 1.09 * page.commands, allocatedBytes: 0.91 * page.allocatedBytes };
    expect(countsFault(near, page)).toBeUndefined();
    const off = { commands: 1.11 * page.commands, redisBytes: 0.89 * page.redisBytes, allocatedBytes: NaN };
    expect(countsFault(off, page)?.split('\n')).toEqual([
      expect.stringMatching(/^commands to Redis of a job: expected 2\.\d+ \(docs\/benchmarks\.md\), .* found 2\.\d\d$/),
      expect.stringContaining('bytes to Redis of a job'),
      expect.stringContaining('bytes allocated of a job'),
    ]);
  });

  test('a ratio is the median of the pairs, each run over the one beside it', () => {
    const runs = (rates: readonly number[]): Run[] =>
      rates.map((perSecond) => ({
        perSecond,
        accepted: 1,
        providersBusy: 0.5,
        cpuMsPerJob: 1,
        commands: new Map(),
        waitsPerJob: 0,
        commandsPerJob: 3,
        redisBytesPerJob: 1_000,
      }));
    expect(figuresOfPairs({ plain: runs([100, 200, 400]), pushpacer: runs([50, 50, 300]) })).toMatchObject({
      ratio: 0.5,
      least: 0.25,
      most: 0.75,
      plainPerSecond: 200,
      perSecond: 50,
      commands: 3,
    });
  });
});

describe('alternatives', () => {
  const burst = makeBurst(true);
  const ENQUEUED_AT = 1_000_000;

  /** The busy recipient's alerts at these instants, in this order of enqueuing, and the others' all after 40 ms. */
  function runOf(busyMs: readonly number[]) {
    const arrival = (id: string, recipientId: string, afterMs: number) => ({
      recipientId,
      notificationId: id,
      device: `device of ${recipientId}`,
      at: ENQUEUED_AT + afterMs,
    });
    return {
      enqueuedAt: ENQUEUED_AT,
      passes: 48,
      arrivals: [
        ...busyMs.map((ms, index) => arrival(burst.busy[index]?.id ?? '', burst.busy[index]?.recipientId ?? '', ms)),
        ...burst.others.map(({ id, recipientId }, index) => arrival(id, recipientId, 40 + index)),
      ],
    };
  }

  test('the limits, the order, the waits and the losses are counted from what arrived', () => {
    const paced = burst.busy.map((_, index) => Math.floor(index / 10) * 3_000 + (index % 10) * 250);
    expect(figuresOfBurst(runOf(paced), burst)).toEqual({
      mostInGap: 1,
      mostInWindow: 10,
      gapViolations: 0,
      windowViolations: 0,
      passesPerJob: 2,
      busyMs: 3_250,
      busyOverIdeal: 1,
      outOfOrder: 0,
      othersMedianMs: 46,
      othersWorstMs: 51,
      duplicates: 0,
      lost: 0,
    });
    const [first = 0, second = 0, ...rest] = burst.busy.map((_, index) => index * 10);
    expect(figuresOfBurst(runOf([second, first, ...rest.slice(0, -1)]), burst)).toMatchObject({
      mostInGap: 11,
      gapViolations: 10,
      windowViolations: 1,
      outOfOrder: 1,
      lost: 1,
    });
  });
});

describe('pacing', () => {
  const POLICY = { rules: [], minGapMs: 250 };

  /** Alerts of one recipient at these instants: `a-0`, `a-1`, … */
  function arrivalsAt(recipientId: string, instants: readonly number[]) {
    return instants.map((at, index) => ({
      recipientId,
      notificationId: `${recipientId}-${index}`,
      device: recipientId,
      at,
    }));
  }

  test('the limits, the losses and the makespans are counted from what arrived', () => {
    const arrivals = [...arrivalsAt('a', [0, 250, 550]), ...arrivalsAt('b', [0, 100]), ...arrivalsAt('c', [7])];
    const ids = [...arrivals.map(({ notificationId }) => notificationId), 'c-1'];
    const kept = { violations: 1, leastGapMs: 100, duplicates: 0, lost: 1 };
    expect(figures.keptBy(arrivals, ids, POLICY)).toEqual(kept);
    expect(figures.makespanRatios(arrivals, POLICY)).toEqual([1.1, 0.4]);
  });

  test("the workers' histogram is read, added up, and compared with a tolerance", () => {
    const page = (counts: readonly number[]): string =>
      ['0.01', '0.1', '0.25', '+Inf'].map((le, at) => `late_bucket{le="${le}"} ${counts[at] ?? 0}`).join('\n');
    const both = figures.sum([page([4, 6, 7, 8]), page([1, 3, 3, 3])].map((text) => figures.readBuckets(text, 'late')));
    const buckets = figures.subtract(both, figures.readBuckets(page([1, 1, 1, 1]), 'late'));
    expect([...buckets]).toEqual([
      [10, 4],
      [100, 8],
      [250, 9],
      [Infinity, 10],
    ]);
    expect(figures.countOf(buckets)).toBe(10);
    expect(figures.countAbove(buckets, 250)).toBe(1);
    expect(figures.countAbove(buckets, 225)).toBe(2); // one of them may have come after 101 ms
    expect(figures.bucketQuantile(buckets, 0.6)).toBe(55);
    expect(figures.bucketQuantile(buckets, 1)).toBe(250);
    expect(figures.bucketQuantile(new Map(), 0.5)).toBeNaN();
  });
});

test('capacity: bytes and counts may be off by a tenth, times by anything, and no bound may be passed', () => {
  const check = (kind: Check['kind'], measured: number, model = 100): Check => ({ name: 'it', kind, measured, model });
  const offOf = (kind: Check['kind'], ...measured: number[]) => measured.map((each) => isOff(check(kind, each)));
  for (const kind of ['bytes', 'count'] as const) {
    expect(offOf(kind, 90.1, 109.9, 89.9, 110.1, NaN)).toEqual([false, false, true, true, true]);
  }
  expect(offOf('bound', 1, 100, 101)).toEqual([false, false, true]);
  expect(failureOf([check('bytes', 100), check('time', 9_000)])).toBeUndefined();
  expect(failureOf([check('bytes', 1_500, 1_000)])).toContain('it: measured 1,500, model 1,000');
});
