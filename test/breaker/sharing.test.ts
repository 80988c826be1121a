import { describe, expect, it } from 'vitest';
import { breakerKeys } from '../../src/breaker/store.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import {
  accepted,
  badToken,
  countAnswers,
  LONG,
  openBreakers,
  openOf,
  overQuota,
  refused,
  reportTimes,
  trialOf,
  unreached,
  untilClosed,
  untilRead,
  wanted,
  type BreakerWorker,
} from './support.ts';

function two(prefix = testPrefix(), options = LONG): [BreakerWorker, BreakerWorker] {
  return [openBreakers(prefix, options), openBreakers(prefix, options)];
}

describe('what a provider says about all of us', () => {
  it('opens the breaker in the same tick for who met it, soon for all workers, and for no other provider', async () => {
    const [worker, other] = two();
    expect(await worker.breakers.enter('apns', 'msg')).toEqual({ kind: 'closed' });
    const before = Date.now();
    worker.breakers.report(refused());
    expect(openOf(worker)).toMatchObject({ platform: 'apns', trouble: 'auth', code: 'InvalidProviderToken' });
    expect(await worker.breakers.enter('apns', 'msg')).toEqual({ kind: 'open', open: openOf(worker) });
    await waitFor(() => openOf(other));
    for (const each of [worker, other]) {
      const { since, until } = openOf(each);
      expect(since).toBe(openOf(worker).since);
      expect(until - before).toBeGreaterThan(59_000);
      expect(until - Date.now()).toBeLessThanOrEqual(60_000);
      expect(each.breakers.current('fcm')).toBeUndefined();
      expect(each.changes).toMatchObject([{ platform: 'apns', open: { trouble: 'auth' }, before: undefined }]);
    }
  });

  it('is one opening, told once, where all workers meet it in one moment', async () => {
    const prefix = testPrefix();
    const connections = [1, 2, 3].map(() => countAnswers());
    const workers = connections.map(({ redis }) => openBreakers(prefix, LONG, redis));
    for (const worker of workers) reportTimes(10, worker, refused);
    await Promise.all(connections.map(untilRead));
    expect(workers.map(({ changes }) => changes.length)).toEqual([1, 1, 1]);
    expect(new Set(workers.map((worker) => openOf(worker).since)).size).toBe(1); // all took over one of the three
  });

  it('gets the name of the worst, and the longest time that the provider names', async () => {
    const [worker, other] = two();
    worker.breakers.report(wanted(5_000));
    await waitFor(() => openOf(other));
    other.breakers.report(refused());
    worker.breakers.report(wanted(90_000));
    for (const each of [worker, other]) {
      await waitFor(() => expect(openOf(each)).toMatchObject({ trouble: 'auth', code: 'InvalidProviderToken' }));
      await waitFor(() => expect(openOf(each).until - openOf(each).since).toBeGreaterThan(85_000));
    }
  });

  it('is found in device quotas of ten recipients, and in the bad tokens of twenty', async () => {
    const [worker, other] = two();
    reportTimes(9, worker, overQuota);
    expect(worker.breakers.current('apns')).toBeUndefined();
    worker.breakers.report(overQuota());
    expect(openOf(worker)).toMatchObject({ trouble: 'quota', code: 'TooManyRequests' });
    reportTimes(19, worker, badToken);
    expect(openOf(worker).trouble).toBe('quota');
    worker.breakers.report(badToken());
    expect(openOf(worker).trouble).toBe('configuration');
    await waitFor(() => expect(openOf(other)).toMatchObject({ trouble: 'configuration', code: 'BadDeviceToken' }));
  });

  it('stays as long as it was where late answers say the same, and where they are good', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const [worker, other] = two(prefix);
    const [, state] = breakerKeys(prefix, 'apns');
    worker.breakers.report(refused());
    await waitFor(() => openOf(other));
    const before = await redis.get(state);
    for (const each of [worker, other]) {
      reportTimes(50, each, refused);
      reportTimes(50, each, accepted);
      await each.breakers.close(); // tells Redis what it does not know
    }
    expect(await redis.get(state)).toBe(before);
    expect([worker, other].map(({ changes }) => changes.length)).toEqual([1, 1]);
  });
});

it('an outage is of the worker that met it alone', async () => {
  const [connection, others] = [countAnswers(), countAnswers()];
  const prefix = testPrefix();
  const worker = openBreakers(prefix, LONG, connection.redis);
  const other = openBreakers(prefix, LONG, others.redis);
  reportTimes(4, worker, unreached);
  expect(worker.breakers.current('apns')).toBeUndefined();
  worker.breakers.report(unreached());
  expect(openOf(worker)).toMatchObject({ trouble: 'outage', code: 'connection-refused' });
  await Promise.all([connection, others].map(untilRead));
  expect(other.breakers.current('apns')).toBeUndefined();
  expect(openOf(worker).trouble).toBe('outage');
  worker.breakers.report(refused());
  expect(openOf(worker).trouble).toBe('auth');
});

describe('what is in Redis', () => {
  it('is two keys under one hash tag, which expire', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const worker = openBreakers(prefix, LONG);
    worker.breakers.report(refused());
    const [marker, state] = breakerKeys(prefix, 'apns');
    await waitFor(async () => expect(await redis.get(marker)).toBe('open'));
    expect((await redis.keys(`*${prefix.slice(1, -1)}*`)).toSorted()).toEqual([marker, state]);
    expect(await redis.pttl(marker)).toBeLessThanOrEqual(60_000);
    expect(await redis.pttl(marker)).toBeGreaterThan(50_000);
    expect(await redis.pttl(state)).toBeLessThanOrEqual(660_000);
    expect(await redis.pttl(state)).toBeGreaterThan(650_000);
    expect(breakerKeys('plain', 'fcm')).toEqual(['{plain}:breaker:fcm', '{plain}:breaker:fcm:last']);
  });

  it('is tried at once where an operator deletes the marker, and closed where both are deleted', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const [worker, other] = two(prefix);
    const [marker, state] = breakerKeys(prefix, 'apns');
    worker.breakers.report(refused());
    await waitFor(() => openOf(other));
    await redis.del(marker);
    other.breakers.report(refused(), await trialOf(other));
    expect(openOf(other).until - Date.now()).toBeGreaterThan(110_000);
    await waitFor(() => expect(openOf(worker).until - Date.now()).toBeGreaterThan(110_000));
    await redis.del(marker, state);
    await Promise.all([worker, other].map(untilClosed));
  });

  it('by a version that this one does not know, opens nothing and breaks nothing', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const [marker, state] = breakerKeys(prefix, 'apns');
    await redis.mset(marker, 'open', state, '{"trouble":"weather"}');
    const connection = countAnswers();
    const worker = openBreakers(prefix, LONG, connection.redis);
    await untilRead(connection);
    expect(worker.changes).toEqual([]);
    worker.breakers.report(refused());
    await waitFor(async () => expect(await redis.get(state)).toContain('InvalidProviderToken'));
  });
});

it('clocks that differ by minutes do not change how long a breaker stays open', async () => {
  const prefix = testPrefix();
  const workers = [-300_000, 0, 420_000].map((ahead) => ({
    ahead,
    ...openBreakers(prefix, { ...LONG, now: () => Date.now() + ahead }),
  }));
  workers[0]?.breakers.report(refused());
  await waitFor(() => workers.forEach((worker) => void openOf(worker)));
  for (const worker of workers) {
    const leftMs = openOf(worker).until - worker.ahead - Date.now();
    expect(leftMs).toBeGreaterThan(50_000);
    expect(leftMs).toBeLessThanOrEqual(60_000);
    expect(worker.breakers.deferUntil('apns', 0) - worker.ahead - Date.now()).toBeGreaterThan(50_000);
  }
});
