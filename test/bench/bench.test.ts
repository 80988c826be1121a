import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { COLOURS, renderPicture, stackDots } from '../../bench/alternatives/picture.ts';
import { makeBurst } from '../../bench/alternatives/run.ts';
import { figuresOf as figuresOfBurst } from '../../bench/alternatives/suite.ts';
import { main } from '../../bench/bench.ts';
import { createCase, expectAnswer, IN_FLIGHT, pump } from '../../bench/limiter/cases.ts';
import { asksUntilAllPassed } from '../../bench/limiter/crowd.ts';
import { compare } from '../../bench/limiter/speed.ts';
import * as figures from '../../bench/pacing/figures.ts';
import { startProxy } from '../../bench/pacing/proxy.ts';
import { makeAlert } from '../../bench/pacing/run.ts';
import { usedBetween } from '../../bench/redis.ts';
import { middleOf } from '../../bench/suite.ts';
import { countsFault, readCounts } from '../../bench/throughput/counts.ts';
import { makeJobs, type Run } from '../../bench/throughput/run.ts';
import { figuresOf as figuresOfPairs } from '../../bench/throughput/suite.ts';
import { tokenOf } from '../../src/notification/device.ts';
import { parseNotification } from '../../src/notification/notification.ts';
import { runMain } from '../support/command.ts';
import { expectSelfContained, expectWellFormed } from '../support/markup.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';

test.each([
  [
    ['unheard-of'],
    'suite: expected one of limiter, throughput, capacity, alternatives, pacing, api, replicas, readme, found "unheard-of"',
  ],
  [['limiter', '--runs', '1'], '--runs: expected an integer from 2 to 1000, found "1"'],
  [['limiter', '--runs', '2.5'], '--runs: expected an integer from 2 to 1000, found "2.5"'],
  [['limiter', '--seconds', 'long'], '--seconds: expected a number from 0.02 to 60, found "long"'],
  [['limiter', '--profile', 'profiles'], '--profile: expected the suite throughput, found limiter'],
  [['limiter', '--budget'], '--budget: expected the suite throughput, found limiter'],
  [['limiter', '--svg', 'x.svg'], '--svg: expected the suite alternatives, found limiter'],
  [['--svg', 'x.svg'], '--svg: expected the suite alternatives, found every suite'],
  [['alternatives', '--svg', 'x.png'], '--svg: expected a name that ends with .svg, found "x.png"'],
  [['alternatives', '--svg', join(tmpdir(), 'missing', 'x.svg')], '--svg: expected a file'],
  [['pacing', '--row', 'unheard-of'], '--row: expected one of flood, distance, many, standstill, found "unheard-of"'],
  [
    ['limiter', '--row', 'flood'],
    '--row: expected a suite with rows: throughput, capacity, pacing, api, found "flood"',
  ],
  [['capacity', '--row', 'unheard-of'], '--row: expected one of figures, points, million, found "unheard-of"'],
  [['limiter', '--model', 'recipients=1'], '--model: expected the suite capacity, found limiter'],
  [['--row', 'flood'], '--row: expected a suite with rows: throughput, capacity, pacing, api, found "flood"'],
])('refuses %j before any work', async (args, message) => {
  const { code, stdout, stderr } = await runMain(main, args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(`error: ${message}`);
});

describe('limiter', () => {
  test('a ratio is the median of its runs, with the middle half of them', () => {
    expect(middleOf([5, 1, 3, 2, 4])).toEqual({ median: 3, lowerQuartile: 2, upperQuartile: 4 });
    expect(middleOf([1, 2])).toEqual({ median: 1.5, lowerQuartile: 1.25, upperQuartile: 1.75 });
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

  test.each([3, 50])('%i jobs that all get the same wait ask N(N+1)/2 times', async (jobs) => {
    let freeAt = 1_000;
    const asks = await asksUntilAllPassed(jobs, 1_000, (_job, nowMs) => {
      if (nowMs < freeAt) return Promise.resolve(freeAt - nowMs);
      freeAt = nowMs + 200;
      return Promise.resolve(undefined);
    });
    expect(asks).toBe((jobs * (jobs + 1)) / 2);
  });

  test('jobs that each get a slot of their own ask 2N - 1 times, and a wait that is none is a fault', async () => {
    const slotOf = (job: number): number => 1_000 + 200 * job;
    const asks = await asksUntilAllPassed(50, 1_000, (job, nowMs) =>
      Promise.resolve(nowMs < slotOf(job) ? slotOf(job) - nowMs : undefined),
    );
    expect(asks).toBe(99);
    await expect(asksUntilAllPassed(1, 0, () => Promise.resolve(0))).rejects.toThrow('found a wait of 0 ms');
  });
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

  test.each(['apns', 'fcm'] as const)(
    'the jobs for %s are notifications, each to a recipient of its own',
    (platform) => {
      const jobs = makeJobs(platform, 'measured', 1_000);
      for (const job of jobs) expect(parseNotification(job)).toMatchObject({ ok: true });
      expect(new Set(jobs.map(({ recipientId }) => recipientId)).size).toBe(1_000);
      expect(new Set(jobs.map(({ devices }) => devices.map(tokenOf).join())).size).toBe(1_000);
    },
  );

  test('what was used between two looks is listed, the most used first', () => {
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

  test('the burst consists of notifications: many to one recipient, and one each to others', () => {
    const whole = makeBurst(false);
    for (const push of [...whole.busy, ...whole.others]) expect(parseNotification(push)).toMatchObject({ ok: true });
    expect(whole.busy).toHaveLength(59);
    expect(new Set(whole.busy.map(({ recipientId }) => recipientId)).size).toBe(1);
    expect(new Set(whole.others.map(({ recipientId }) => recipientId)).size).toBe(140);
    expect(whole.recipientOf.size).toBe(141);
    expect(new Set([...whole.busy, ...whole.others].map(({ id }) => id)).size).toBe(199);
  });

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

  test('dots that would touch stand one above the other', () => {
    const levels = stackDots([0, 1, 2, 100, 104, 200], (ms) => ms).map(({ level }) => level);
    expect(levels).toEqual([0, 1, 2, 0, 1, 0]);
  });

  test.each(['light', 'dark'] as const)(
    'the picture for %s pages has a dot for each alert and loads nothing',
    (kind) => {
      const picture = renderPicture({ withoutMs: [40, 41, 42], withMs: [40, 290, 540] }, COLOURS[kind]);
      expectWellFormed(picture);
      expectSelfContained(picture);
      expect(picture.match(/<circle /g)).toHaveLength(6);
      expect(picture).toContain(COLOURS[kind].text);
    },
  );
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

  test('an alert is a notification whose data shows the providers which it is', () => {
    const alert = makeAlert('msg-1', 'teacher-1');
    expect(parseNotification(alert)).toMatchObject({ ok: true });
    expect(alert.data).toEqual({ ref: 'msg-1', to: 'teacher-1' });
    expect(makeAlert('msg-2', 'teacher-1').devices).toEqual(alert.devices);
    expect(makeAlert('msg-2', 'teacher-2').devices).not.toEqual(alert.devices);
  });

  test('the limits, the losses and the makespans are counted from what arrived', () => {
    const arrivals = [...arrivalsAt('a', [0, 250, 550]), ...arrivalsAt('b', [0, 100]), ...arrivalsAt('c', [7])];
    const ids = [...arrivals.map(({ notificationId }) => notificationId), 'c-1'];
    const kept = { violations: 1, leastGapMs: 100, duplicates: 0, lost: 1 };
    expect(figures.keptBy(arrivals, ids, POLICY)).toEqual(kept);
    expect(figures.makespanRatios(arrivals, POLICY)).toEqual([1.1, 0.4]);
  });

  test('passes and the time of due passes are those of the jobs', () => {
    const jobs = new Map([
      ['a-0', { requeues: 0, takenAt: 1_000 }],
      ['a-1', { requeues: 1, takenAt: 1_240 }],
      ['a-2', { requeues: 3, takenAt: 1_600 }],
    ]);
    expect(figures.passesOf(jobs, [...jobs.keys()])).toEqual({ mean: 7 / 3, worst: 4 });
    const took = figures.tookOf(arrivalsAt('a', [1_010, 1_262, 1_640]), jobs, POLICY);
    // The second one waited until 1,260, the third one was taken after its gap had passed.
    expect(took).toEqual([
      { allMs: 22, ownMs: 2, arrivedAt: 1_262 },
      { allMs: 40, ownMs: 40, arrivedAt: 1_640 },
    ]);
  });

  test('a spread is the median, the 99th percentile and the largest', () => {
    const values = Array.from({ length: 200 }, (_, index) => 200 - index);
    expect(figures.spreadOf(values)).toEqual({ p50: 101, p99: 199, worst: 200 });
    expect(figures.spreadOf([])).toEqual({ p50: NaN, p99: NaN, worst: NaN });
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

  test('the late tolerance is the one that the limiter answers', async () => {
    expect(await figures.lateToleranceMs(POLICY)).toBeGreaterThan(100);
    expect(await figures.lateToleranceMs(POLICY)).toBeLessThan(POLICY.minGapMs);
  });

  test('the relay delays every command and every answer, and keeps their order', async () => {
    const proxy = await startProxy(testRedisUrl(), 10);
    const redis = connectRedis(proxy.url);
    await redis.ping();
    const startedAt = performance.now();
    const key = `${testPrefix()}:relayed`;
    const replies = await Promise.all([redis.incr(key), redis.incr(key), redis.del(key)]);
    expect(replies).toEqual([1, 2, 1]);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(19); // a timer may be early by a fraction of a millisecond
    redis.disconnect();
    await proxy.close();
  });
});
