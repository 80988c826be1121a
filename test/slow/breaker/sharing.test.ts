import { describe, expect, it } from 'vitest';
import { breakerKeys } from '../../../src/breaker/redis-breakers.ts';
import { connectRedis, testPrefix } from '../../support/redis.ts';
import { waitFor } from '../../support/wait.ts';
import {
  accepted,
  countAnswers,
  LONG,
  openBreakers,
  openOf,
  refused,
  reportTimes,
  trialOf,
  unreached,
  untilClosed,
  untilRead,
  wanted,
  type BreakerWorker,
} from '../../breaker/support.ts';

function two(prefix = testPrefix(), options = LONG): [BreakerWorker, BreakerWorker] {
  return [openBreakers(prefix, options), openBreakers(prefix, options)];
}

describe('what a provider says about all of us', () => {
  it('opens the breaker in the same tick for who met it, soon for all workers, and for no other provider', async () => {
    const [worker, other] = two();
    expect(await worker.breakers.enter('apns', 'msg')).toEqual({ kind: 'closed' });
    const before = Date.now();
    worker.breakers.report(refused());
    expect(openOf(worker)).toMatchObject({ service: 'apns', trouble: 'auth', code: 'InvalidProviderToken' });
    expect(await worker.breakers.enter('apns', 'msg')).toEqual({ kind: 'open', open: openOf(worker) });
    await waitFor(() => openOf(other));
    for (const each of [worker, other]) {
      const { since, until } = openOf(each);
      expect(since).toBe(openOf(worker).since);
      expect(until - before).toBeGreaterThan(59_000);
      expect(until - Date.now()).toBeLessThanOrEqual(60_000);
      expect(each.breakers.current('fcm')).toBeUndefined();
      expect(each.changes).toMatchObject([{ service: 'apns', open: { trouble: 'auth' }, before: undefined }]);
    }
  });

  it('is one opening, logged once, where all workers meet it in one moment', async () => {
    const prefix = testPrefix();
    const connections = [1, 2, 3].map(() => countAnswers());
    const workers = connections.map(({ redis }) => openBreakers(prefix, LONG, redis));
    for (const worker of workers) reportTimes(10, worker, refused);
    await Promise.all(connections.map(untilRead));
    expect(workers.map(({ changes }) => changes.length)).toEqual([1, 1, 1]);
    expect(new Set(workers.map((worker) => openOf(worker).since)).size).toBe(1); // all took over one of the three
  });

  it('lasts as long as the longest time that the provider names, whoever hears of it', async () => {
    const [worker, other] = two(testPrefix(), { ...LONG, baseMs: 5_000 });
    worker.breakers.report(wanted(7_000));
    await waitFor(() => openOf(other));
    other.breakers.report(refused());
    other.breakers.report(wanted(90_000));
    other.breakers.report(wanted(8_000));
    for (const each of [worker, other]) {
      await waitFor(() => expect(openOf(each).until - Date.now()).toBeGreaterThan(80_000));
      expect(openOf(each)).toMatchObject({ trouble: 'quota', code: 'QUOTA_EXCEEDED' });
      expect(each.changes).toHaveLength(1);
    }
  });

  it('lasts a minute where the provider asks for less and names no time', () => {
    const worker = openBreakers(testPrefix());
    worker.breakers.report(wanted());
    expect(openOf(worker).until - Date.now()).toBeGreaterThan(50_000);
    expect(openOf(worker).until - Date.now()).toBeLessThanOrEqual(60_000);
  });

  it('stays as long as it was where late answers say the same, and where they are good', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const [worker, other] = two(prefix);
    const [state] = breakerKeys(prefix, 'apns');
    worker.breakers.report(refused());
    await waitFor(() => openOf(other));
    const before = await redis.get(state);
    for (const each of [worker, other]) {
      reportTimes(50, each, refused);
      reportTimes(50, each, accepted);
      await each.breakers.close(); // by then Redis has answered every command
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
    const worker = openBreakers(prefix);
    const keys = breakerKeys(prefix, 'apns');
    worker.breakers.report(refused());
    const { id } = await trialOf(worker);
    expect((await redis.keys(`*${prefix.slice(1, -1)}*`)).toSorted()).toEqual(keys);
    const lives = await Promise.all(keys.map((key) => redis.pttl(key)));
    expect(lives[0]).toBeGreaterThan(550_000);
    expect(lives[0]).toBeLessThanOrEqual(600_000);
    expect(lives[1]).toBeGreaterThan(10_000);
    expect(lives[1]).toBeLessThanOrEqual(20_000);
    expect(JSON.parse((await redis.get(keys[0])) ?? '')).toMatchObject({
      trouble: 'auth',
      code: 'InvalidProviderToken',
    });
    expect(await redis.get(keys[1])).toBe(id);
    expect(breakerKeys('plain', 'fcm')).toEqual(['{plain}:breaker:fcm', '{plain}:breaker:fcm:trial']);
  });

  it('is closed for all where an operator deletes it', async () => {
    const prefix = testPrefix();
    const [worker, other] = two(prefix);
    worker.breakers.report(refused());
    await waitFor(() => openOf(other));
    await connectRedis().del(breakerKeys(prefix, 'apns')[0]);
    await Promise.all([worker, other].map(untilClosed));
  });

  it('by a version that this one does not know, opens nothing and breaks nothing', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const [state] = breakerKeys(prefix, 'apns');
    await redis.set(state, '{"trouble":"weather"}', 'PX', 600_000);
    const connection = countAnswers();
    const worker = openBreakers(prefix, LONG, connection.redis);
    await untilRead(connection);
    expect(worker.changes).toEqual([]);
    worker.breakers.report(refused());
    await untilRead(connection);
    expect(openOf(worker).trouble).toBe('auth'); // of this worker alone, until Redis can be written to
    await redis.del(state);
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
    expect(
      worker.breakers.deferUntil('apns', { recipientId: 'person', enqueuedAt: 0 }) - worker.ahead - Date.now(),
    ).toBeGreaterThan(50_000);
  }
});
