import { expect, test } from 'vitest';
import { main } from '../../bench/bench.ts';
import * as figures from '../../bench/pacing/figures.ts';
import { startProxy } from '../../bench/pacing/proxy.ts';
import { makeAlert } from '../../bench/pacing/run.ts';
import { parseNotification } from '../../src/domain/notification.ts';
import { runMain } from '../support/command.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';

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

const facts = (fields: Partial<figures.JobFacts>): figures.JobFacts => ({
  requeues: 0,
  starts: 1,
  takenAt: undefined,
  dueAt: undefined,
  ...fields,
});

test('an alert is a notification whose data tells the providers which it is', () => {
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

test('passes, lateness and the time of due passes are told by the jobs', () => {
  const jobs = new Map([
    ['a-0', facts({ takenAt: 1_000 })],
    ['a-1', facts({ requeues: 1, takenAt: 1_240, dueAt: 1_225 })],
    ['a-2', facts({ requeues: 3, takenAt: 1_600, dueAt: 1_475 })],
  ]);
  expect(figures.passesOf(jobs, [...jobs.keys()])).toEqual({ mean: 7 / 3, worst: 4 });
  expect(figures.latenessOf(jobs, [...jobs.keys()])).toEqual([15, 125]);
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

test('the late tolerance is the one that the limiter tells', async () => {
  expect(await figures.lateToleranceMs(POLICY)).toBeGreaterThan(100);
  expect(await figures.lateToleranceMs(POLICY)).toBeLessThan(POLICY.minGapMs);
});

test('the relay holds every command and every answer back, and keeps their order', async () => {
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

test.each([
  [['pacing', '--row', 'unheard-of'], '--row: expected one of flood, many, standstill, found "unheard-of"'],
  [['limiter', '--row', 'flood'], '--row: expected a suite with rows: pacing, found "flood"'],
  [['--row', 'flood'], '--row: expected a suite with rows: pacing, found "flood"'],
])('refuses %j before any work', async (args, message) => {
  const { code, stdout, stderr } = await runMain(main, args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(`error: ${message}`);
});
