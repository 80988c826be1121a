import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { BEHIND_MS, LEAST_MS } from '../../src/pause/come-back.ts';
import { pauseKey } from '../../src/pause/store.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { accepted, BASE_MS, openPauses, pauseOf, probeOf, refused, unreached, wanted } from './support.ts';

const LONG = { baseMs: 60_000, maxMs: 60_000 };

describe('a pause', () => {
  it('holds in the same tick for who met the trouble, within a second for all, and for no other provider', async () => {
    const prefix = testPrefix();
    const workers = Array.from({ length: 4 }, () => openPauses(prefix, LONG));
    const [first, ...others] = workers as [(typeof workers)[0], ...typeof workers];
    expect(await first.pauses.enter('apns')).toEqual({ kind: 'open' });
    const before = Date.now();
    first.pauses.report(refused());
    expect(await first.pauses.enter('apns')).toEqual({ kind: 'paused', pause: pauseOf(first) });
    expect(pauseOf(first)).toMatchObject({ platform: 'apns', trouble: 'auth', code: 'InvalidProviderToken' });
    const toldAt = performance.now();
    await waitFor(() => others.map(pauseOf));
    expect(performance.now() - toldAt).toBeLessThan(1_000);
    for (const worker of workers) {
      const { until, since } = pauseOf(worker);
      expect(Math.abs(until - since - 60_000)).toBeLessThanOrEqual(100);
      expect(Math.abs(until - before - 60_000)).toBeLessThan(1_000);
      expect(worker.pauses.current('fcm')).toBeUndefined();
      expect(await worker.pauses.enter('fcm')).toEqual({ kind: 'open' });
    }
    await waitFor(() => expect(first.changes).toHaveLength(1));
    expect(first.changes[0]).toEqual({ platform: 'apns', pause: pauseOf(first), before: undefined, by: 'us' });
    expect(others.map(({ changes }) => changes.map(({ by }) => by))).toEqual([['others'], ['others'], ['others']]);
  });

  it('is opened once where all workers are refused in one moment', async () => {
    const prefix = testPrefix();
    const workers = Array.from({ length: 5 }, () => openPauses(prefix, LONG));
    await Promise.all(workers.map(({ pauses }) => pauses.enter('apns')));
    for (const { pauses } of workers) for (let late = 0; late < 10; late++) pauses.report(refused());
    await waitFor(() => expect(workers.flatMap(({ changes }) => changes)).toHaveLength(5));
    expect(workers.flatMap(({ changes }) => changes.filter(({ by }) => by === 'us'))).toHaveLength(1);
  });

  it('has one `until` for all jobs of a worker, reading after reading', async () => {
    const prefix = testPrefix();
    const [first, other] = [openPauses(prefix, LONG), openPauses(prefix, LONG)];
    first.pauses.report(refused());
    const seen = new Set([pauseOf(first).until]);
    const seenByOther = new Set<number>();
    await waitFor(() => pauseOf(other));
    for (let reading = 0; reading < 6; reading++) {
      seen.add(pauseOf(first).until);
      seenByOther.add(pauseOf(other).until);
      await sleep(150);
    }
    expect([seen.size, seenByOther.size]).toEqual([1, 1]);
    expect(first.changes).toHaveLength(1);
    expect(other.changes).toHaveLength(1);
  });

  it('tells those who come when they may come back', () => {
    const { pauses } = openPauses(testPrefix(), LONG);
    const open = pauses.comeBackAt('apns', 0) - Date.now();
    expect(open).toBeGreaterThan(LEAST_MS - 100);
    pauses.report(refused());
    const until = pauses.current('apns')?.until ?? 0;
    const times = Array.from({ length: 1_002 }, () => pauses.comeBackAt('apns', 0));
    expect(times.slice(0, 3)).toEqual([until, until + BEHIND_MS, until + BEHIND_MS]);
    expect(times.at(-1)).toBe(until + BEHIND_MS + 1);
  });

  it('gets no longer by late answers that say the same, and does not end by those that are well', async () => {
    const worker = openPauses(testPrefix(), LONG);
    worker.pauses.report(refused());
    const { until } = pauseOf(worker);
    await waitFor(() => expect(worker.changes).toHaveLength(1));
    await sleep(120);
    for (let late = 0; late < 20; late++) {
      worker.pauses.report(refused());
      worker.pauses.report(unreached());
      worker.pauses.report(accepted());
    }
    await sleep(300); // a reading of what Redis has
    expect(pauseOf(worker)).toMatchObject({ trouble: 'auth', until });
    expect(worker.changes).toHaveLength(1);
  });

  it('is told as the worst trouble that was met, and lasts for the longest', async () => {
    const prefix = testPrefix();
    const [worker, other] = [openPauses(prefix, { baseMs: 5_000 }), openPauses(prefix, { baseMs: 5_000 })];
    for (let failure = 0; failure < 5; failure++) worker.pauses.report(unreached());
    const first = pauseOf(worker);
    expect(first.trouble).toBe('outage');
    worker.pauses.report(wanted(30_000));
    const second = pauseOf(worker);
    expect(second).toMatchObject({ trouble: 'quota', since: first.since });
    expect(second.until - first.until).toBeGreaterThan(20_000);
    worker.pauses.report(refused());
    const third = pauseOf(worker);
    expect(third).toMatchObject({ trouble: 'auth', code: 'InvalidProviderToken' });
    expect(third.until - second.until).toBeLessThan(100);
    worker.pauses.report(wanted(90_000));
    const { trouble, until } = pauseOf(worker);
    expect(trouble).toBe('auth');
    expect(until - third.until).toBeGreaterThan(50_000);
    await waitFor(() => expect(Math.abs(pauseOf(other).until - until)).toBeLessThan(200));
    expect(pauseOf(other).trouble).toBe('auth');
  });
});

describe('a call for less', () => {
  it('is heeded for as long as the provider says, else for a minute', async () => {
    for (const [retryAfterMs, expected] of [
      [7_000, 7_000],
      [undefined, 60_000],
      [Number.MAX_SAFE_INTEGER, 86_400_000],
    ] as const) {
      const prefix = testPrefix();
      const [worker, other] = [openPauses(prefix), openPauses(prefix)];
      worker.pauses.report(wanted(retryAfterMs));
      const { since, until } = pauseOf(worker);
      expect(until - since).toBe(expected);
      await waitFor(() => expect(Math.abs(pauseOf(other).until - until)).toBeLessThan(200));
    }
  });

  it('gets longer by a later one that names more, and never shorter', async () => {
    const worker = openPauses(testPrefix());
    worker.pauses.report(wanted(20_000));
    const first = pauseOf(worker);
    worker.pauses.report(wanted(5_000));
    worker.pauses.report(wanted(undefined));
    worker.pauses.report(wanted(20_500));
    expect(pauseOf(worker)).toEqual(first);
    worker.pauses.report(wanted(40_000));
    expect(pauseOf(worker).until - first.until).toBeGreaterThan(15_000);
    await waitFor(() => expect(worker.changes.map(({ by }) => by)).toEqual(['us']));
  });

  it('gets no longer where several workers are told in one moment', async () => {
    const prefix = testPrefix();
    const workers = Array.from({ length: 3 }, () => openPauses(prefix));
    for (const [index, { pauses }] of workers.entries()) pauses.report(wanted(20_000 + index * 400));
    await waitFor(() => expect(workers.flatMap(({ changes }) => changes)).toHaveLength(3));
    expect(workers.flatMap(({ changes }) => changes.filter(({ by }) => by === 'us'))).toHaveLength(1);
  });
});

describe('an outage', () => {
  it('opens a pause with the fifth failure of several notifications, and no sooner', () => {
    const { pauses } = openPauses(testPrefix());
    for (let failure = 0; failure < 4; failure++) pauses.report(unreached());
    expect(pauses.current('apns')).toBeUndefined();
    pauses.report(unreached());
    expect(pauses.current('apns')).toMatchObject({ trouble: 'outage', code: 'connection-refused' });
  });

  it('is not what one notification meets that always fails, nor one error in two', () => {
    const { pauses } = openPauses(testPrefix());
    for (let answer = 0; answer < 200; answer++) pauses.report({ ...unreached(), notificationId: 'poison' });
    expect(pauses.current('apns')).toBeUndefined();
    const other = openPauses(testPrefix());
    for (let answer = 0; answer < 200; answer++) other.pauses.report(answer % 2 ? unreached() : accepted());
    expect(other.pauses.current('apns')).toBeUndefined();
  });

  it('that only one worker met is called off by late answers of the others, not by one of them', async () => {
    const prefix = testPrefix();
    const [sick, healthy] = [openPauses(prefix, LONG), openPauses(prefix, LONG)];
    for (let failure = 0; failure < 5; failure++) sick.pauses.report(unreached());
    await waitFor(() => pauseOf(healthy));
    for (let late = 0; late < 4; late++) healthy.pauses.report(accepted());
    await sleep(300);
    pauseOf(healthy);
    healthy.pauses.report(accepted());
    await waitFor(() => expect(healthy.pauses.current('apns')).toBeUndefined());
    await waitFor(() => expect(sick.pauses.current('apns')).toBeUndefined());
    expect(healthy.changes.at(-1)).toMatchObject({ pause: undefined, by: 'us' });
  });
});

describe('clocks that differ by minutes', () => {
  it('do not change how long anybody waits', async () => {
    const prefix = testPrefix();
    const clocks = [-300_000, 0, 420_000];
    const workers = clocks.map((ahead) => ({
      ahead,
      ...openPauses(prefix, { ...LONG, now: () => Date.now() + ahead }),
    }));
    const [first] = workers as [(typeof workers)[0]];
    first.pauses.report(refused());
    await waitFor(() => workers.forEach(pauseOf));
    for (const worker of workers) {
      const left = pauseOf(worker).until - worker.ahead - Date.now();
      expect(left).toBeGreaterThan(55_000);
      expect(left).toBeLessThanOrEqual(60_100);
      expect(worker.pauses.comeBackAt('apns', 0) - worker.ahead - Date.now()).toBeGreaterThan(55_000);
    }
  });

  it('nor does a clock that is set while the provider is paused', async () => {
    let ahead = 0;
    const worker = openPauses(testPrefix(), { ...LONG, now: () => Date.now() + ahead });
    worker.pauses.report(refused());
    await waitFor(() => expect(worker.changes).toHaveLength(1));
    ahead = -120_000;
    await waitFor(() => expect(pauseOf(worker).until - ahead - Date.now()).toBeLessThan(61_000));
    expect(worker.changes).toHaveLength(1);
  });
});

describe('what stays in Redis', () => {
  it('is one key for a paused provider, under the hash tag of the prefix, gone an hour after the pause', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const worker = openPauses(prefix, { baseMs: 10_000 });
    worker.pauses.report(refused());
    await waitFor(async () => expect(await redis.keys(`*${prefix.slice(1, -1)}*`)).toEqual([`${prefix}:pause:apns`]));
    const left = await redis.pttl(`${prefix}:pause:apns`);
    expect(left).toBeGreaterThan(3_600_000);
    expect(left).toBeLessThanOrEqual(3_610_000);
    expect(pauseKey('plain', 'fcm')).toBe('{plain}:pause:fcm');
  });

  it('is no probe of a worker that closed', async () => {
    const prefix = testPrefix();
    const redis = connectRedis();
    const worker = openPauses(prefix, { baseMs: BASE_MS });
    worker.pauses.report(refused());
    await probeOf(worker);
    expect(await redis.hexists(`${prefix}:pause:apns`, 'probe')).toBe(1);
    await worker.pauses.close();
    expect(await redis.hexists(`${prefix}:pause:apns`, 'probe')).toBe(0);
  });
});
