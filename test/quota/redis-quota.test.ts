import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { checkTerms, type Over, type Quota } from '../../src/quota/quota.ts';
import {
  type BatchAsk,
  type BatchReply,
  createRedisQuota,
  createTokenBatches,
  quotaKeys,
} from '../../src/quota/redis-quota.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { readScript } from '../../src/redis/scripts.ts';
import { AHEAD_MS, expectKept } from '../limiter/support.ts';
import { connectCluster } from '../support/cluster.ts';
import { frozen, ownRedis } from '../support/own-redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

afterEach(() => vi.restoreAllMocks());

/** A client on this clock (epoch ms), as is this process. */
function onOneClock(now: () => number): Redis {
  vi.spyOn(performance, 'now').mockImplementation(now);
  return onClock(connectRedis(), now);
}

const MINUTELY = [{ max: 1_000, perMs: 60_000 }];
const SCRIPT = readScript('quota.lua', new URL('../../src/quota/', import.meta.url));

describe('24 clients at once, on the real clock', () => {
  it('never use more in any rolling window, and each send is delayed once at the most or was late', async () => {
    const rules = [
      { max: 60, perMs: 250 },
      { max: 150, perMs: 1_000 },
    ];
    const prefix = testPrefix();
    const quotas = Array.from({ length: 24 }, () =>
      createRedisQuota({ redis: connectRedis(), name: 'fcm', rules, prefix, timeoutMs: 60_000 }),
    );
    const { leaseMs } = checkTerms({ name: 'fcm', rules });
    const used: number[] = [];
    let asks = 0;
    /** Asks that a busy machine adds: after a token that came too late, for one that came back late, or a moment early. */
    let allowed = 2 * 480;
    const send = async (quota: Quota): Promise<void> => {
      for (let promised: (Over & { readonly dueAt: number }) | undefined; ;) {
        asks += 1;
        const answer = await quota.take(promised?.at);
        const at = performance.now();
        if (promised !== undefined && at > promised.dueAt + leaseMs) allowed += 1;
        if (answer.kind === 'over') {
          if (answer.at === promised?.at) allowed += 1;
          promised = { ...answer, dueAt: at + answer.waitMs };
          await sleep(answer.waitMs);
        } else if (at < answer.useBy) {
          used.push(at);
          return;
        } else {
          promised = undefined;
          allowed += 2;
        }
      }
    };
    await Promise.all(
      quotas.flatMap((quota) =>
        Array.from({ length: 20 }, async (_, turn) => {
          await sleep(turn * 20);
          await send(quota);
        }),
      ),
    );
    expect(used).toHaveLength(480);
    // This process's clock and Redis's may differ by a part in a thousand.
    const slower = rules.map(({ max, perMs }) => ({ max, perMs: perMs * 0.999 }));
    expectKept({ rules: slower, minGapMs: 0 }, used);
    expect(asks).toBeLessThanOrEqual(allowed);
  });
});

describe('what stays in Redis', () => {
  it('is a handful of keys under one hash tag that expire with the window, and the lease after a minute', async () => {
    const [redis, prefix, now] = [connectRedis(), testPrefix(), Date.now() + AHEAD_MS];
    const quota = createRedisQuota({
      redis: onOneClock(() => now),
      name: 'fcm',
      rules: [{ max: 2, perMs: 60_000 }],
      prefix,
    });
    await Promise.all([quota.take(), quota.take(), quota.take()]);
    const stem = `${prefix.slice(1, -1)}:quota:{fcm}`;
    const keys = await redis.keys(`${stem}:*`);
    const [lease = ''] = keys.filter((key) => key.startsWith(`${stem}:lease:`));
    expect(keys.sort()).toEqual([`${stem}:60000:promised`, `${stem}:60000:taken`, lease, `${stem}:tail`]);
    const expiry = await Promise.all(keys.map(async (key) => (await redis.pexpiretime(key)) - now));
    const [promised = NaN, taken = NaN, leased = NaN, tail = NaN] = expiry;
    expect(taken).toBeGreaterThan(60_500);
    expect(taken).toBeLessThanOrEqual(60_500 + 2 * 600);
    expect(tail).toBeGreaterThan(60_000);
    expect(promised).toBeGreaterThan(tail);
    expect(promised).toBeLessThanOrEqual(tail + 600 + 1_000);
    expect(leased + AHEAD_MS).toBeLessThanOrEqual(60_000 + 1_000); // by Redis's own clock
  });

  it('stays small: a bucket out of its window goes with the next write', async () => {
    const [redis, prefix] = [connectRedis(), testPrefix()];
    let now = Date.now() + AHEAD_MS;
    const quota = createRedisQuota({ redis: onOneClock(() => now), name: 'fcm', rules: MINUTELY, prefix });
    for (let turn = 0; turn < 500; turn += 1) {
      now += 500;
      await quota.take();
    }
    const entries = await redis.zcard(`${prefix.slice(1, -1)}:quota:{fcm}:60000:taken`);
    expect(entries).toBeGreaterThan(90);
    expect(entries).toBeLessThanOrEqual(103);
  });

  it('and was taken under a clock that is gone is dropped, the promises too', async () => {
    const prefix = testPrefix();
    let now = Date.now() + 3 * AHEAD_MS;
    const quota = createRedisQuota({
      redis: onOneClock(() => now),
      name: 'fcm',
      rules: [{ max: 2, perMs: 60_000 }],
      prefix,
    });
    await Promise.all([quota.take(), quota.take(), quota.take()]);
    now -= 30_000; // still counted
    expect(await quota.take()).toMatchObject({ kind: 'over' });
    now -= AHEAD_MS;
    expect(await quota.take()).toMatchObject({ kind: 'taken' });
    expect(await quota.take()).toMatchObject({ kind: 'taken' });
    expect(await quota.take()).toMatchObject({ kind: 'over', rule: '2/1m' });
  });
});

describe('a token batch', () => {
  it('is given back on close, and by the next call', async () => {
    const prefix = testPrefix();
    let now = Date.now() + AHEAD_MS;
    const options = { redis: onOneClock(() => now), name: 'fcm', rules: MINUTELY, prefix };
    const [quota, other] = [createRedisQuota(options), createRedisQuota(options)];
    const takeMany = (count: number) => Promise.all(Array.from({ length: count }, () => quota.take()));
    const used = async () => (await other.used())[0]?.used;
    await takeMany(20);
    await takeMany(1);
    expect(await used()).toBe(41);
    await takeMany(5); // at hand
    expect(await used()).toBe(41);
    now += 600;
    await takeMany(1); // the 15 left are given back, as many as were used in the last period are taken
    expect(await used()).toBe(27 + 26);
    await quota.close();
    expect(await used()).toBe(27);
  });

  it('is a quarter of the room at the most, so that the last tokens are for those who ask', async () => {
    const [prefix, now] = [testPrefix(), Date.now() + AHEAD_MS];
    const options = { redis: onOneClock(() => now), name: 'fcm', rules: [{ max: 100, perMs: 60_000 }], prefix };
    const [quota, other] = [createRedisQuota(options), createRedisQuota(options)];
    await Promise.all(Array.from({ length: 60 }, () => quota.take()));
    await quota.take();
    expect(await other.used()).toMatchObject([{ used: 61 + Math.floor(39 / 4) }]);
    const rest = await Promise.all(Array.from({ length: 30 }, () => other.take()));
    expect(rest.every(({ kind }) => kind === 'taken')).toBe(true);
  });

  it('that is given back lets nobody go before the instant that was promised', async () => {
    const prefix = testPrefix();
    let now = Date.now() + AHEAD_MS;
    const options = { redis: onOneClock(() => now), name: 'fcm', rules: [{ max: 44, perMs: 60_000 }], prefix };
    const [other, quota] = [createRedisQuota(options), createRedisQuota(options)];
    await Promise.all(Array.from({ length: 20 }, () => other.take()));
    await other.take(); // with five for later
    await Promise.all(Array.from({ length: 18 }, () => quota.take()));
    const promised = await quota.take();
    const at = promised.kind === 'over' ? promised.at : NaN;
    await other.close();
    expect(await quota.used()).toMatchObject([{ used: 39 }]);
    expect(await quota.take(at)).toMatchObject({ kind: 'over', at });
    now = Math.ceil(at);
    expect(await quota.take(at)).toMatchObject({ kind: 'taken' });
  });

  it('is taken once where the client resends a call, and to nobody where a later call came first', async () => {
    const [redis, prefix] = [connectRedis(), testPrefix()];
    const { tiers } = checkTerms({ name: 'fcm', rules: MINUTELY });
    const keys = quotaKeys(prefix, 'fcm', 'me', tiers);
    const limits = tiers.flatMap(({ max, widthMs, span, slack }) => [max, widthMs, span, slack]);
    const call = (number: number, unused: number) =>
      redis.eval(SCRIPT, keys.length, ...keys, number, unused, 3, 7, ...limits) as Promise<unknown[]>;
    const answer = [expect.any(Number), 7, [0, 0, 0, 0, 0, 0], [10]];
    expect(await call(1, 0)).toEqual(answer);
    expect(await call(1, 0)).toEqual(answer);
    expect((await call(2, 4))[3]).toEqual([16]);
    expect((await call(4, 1e12))[3]).toEqual([26]); // call 3 never came: what it may have had is unknown
    await expect(call(3, 0)).rejects.toThrow('overtaken by a later one');
    expect((await call(5, 1e12))[3]).toEqual([26]);
  });
});

describe('Redis misbehaving', () => {
  it('hangs: the wait is bounded, and what the lost call took is given back', async () => {
    const { url, pid } = await ownRedis();
    const redis = connectRedis(url);
    const rules = [{ max: 1_000, perMs: 600_000 }];
    const quota = createRedisQuota({ redis, name: 'fcm', rules, timeoutMs: 500 });
    // On a busy machine an answer may be later than 500 ms, and what that call took is given back too.
    const taken = () => expect.poll(() => quota.take().catch(() => 'away')).toMatchObject({ kind: 'taken' });
    const used = () => expect.poll(() => quota.used().catch(() => 'away'));
    await taken();
    await frozen(pid, async () => {
      const lost = await Promise.allSettled([quota.take(), quota.take(), quota.used()]);
      for (const outcome of lost) expect(outcome).toMatchObject({ reason: { name: 'LimiterUnavailableError' } });
    });
    await taken();
    await quota.close();
    await used().toMatchObject([{ used: 2 }]);
    await redis.script('FLUSH');
    await used().toMatchObject([{ used: 2 }]);
  });

  it('refuses: the error says why, and close ends all the same', async () => {
    const redis = new Redis({ lazyConnect: true });
    redis.disconnect();
    const quota = createRedisQuota({ redis, name: 'fcm', rules: MINUTELY });
    await expect(quota.take()).rejects.toThrow(LimiterUnavailableError);
    await quota.close();
  });
});

it('works on a cluster', async () => {
  const cluster = connectCluster();
  const rules = [...MINUTELY, { max: 1, perMs: 3_600_000 }];
  const quota = createRedisQuota({ redis: cluster, name: 'fcm', rules, prefix: testPrefix() });
  expect(await quota.take()).toMatchObject({ kind: 'taken' });
  expect(await quota.take()).toMatchObject({ kind: 'over', rule: '1/1h' });
  await quota.close();
});

describe('token batches', () => {
  let now: number;
  let asked: BatchAsk[];
  let answer: (ask: BatchAsk) => BatchReply | Promise<BatchReply>;
  let batches: Pick<Quota, 'take' | 'close'>;

  const generous = ({ promises, newcomers, extra }: BatchAsk): BatchReply => ({
    answers: Array.from({ length: promises.length + newcomers }, () => 'taken'),
    extra,
  });
  const takeMany = (count: number) => Promise.all(Array.from({ length: count }, () => batches.take()));

  beforeEach(() => {
    [now, asked, answer] = [1_000, [], generous];
    const ask = async (wanted: BatchAsk): Promise<BatchReply> => {
      asked.push(wanted);
      return answer(wanted);
    };
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    batches = createTokenBatches(ask, 100);
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('asks once for all that ask in one turn, and once more for all that ask meanwhile', async () => {
    const release = Promise.withResolvers<undefined>();
    answer = async (ask) => {
      await release.promise;
      return generous(ask);
    };
    const first = takeMany(5);
    await expect.poll(() => asked).toHaveLength(1);
    const second = takeMany(7);
    release.resolve(undefined);
    expect([...(await first), ...(await second)]).toHaveLength(12);
    expect(asked.map(({ newcomers }) => newcomers)).toEqual([5, 7]);
  });

  it('asks for no more than 200 in one call', async () => {
    await takeMany(450);
    expect(asked.map(({ newcomers }) => newcomers)).toEqual([200, 200, 50]);
  });

  it('have nothing for one that was idle', async () => {
    await takeMany(10);
    now += 250;
    await batches.take();
    expect(asked.at(-1)).toMatchObject({ newcomers: 1, extra: 0 });
  });

  it('hands out no token past its time, which counts from before the call, and gives back what is left with the next', async () => {
    answer = (ask) => ({ ...generous(ask), extra: 4 });
    expect(await batches.take()).toEqual({ kind: 'taken', useBy: 1_100 });
    now += 99;
    expect(await batches.take()).toEqual({ kind: 'taken', useBy: 1_100 });
    now += 1;
    expect(await batches.take()).toEqual({ kind: 'taken', useBy: 1_200 });
    expect(asked.map(({ unused }) => unused)).toEqual([0, 3]);
  });

  it('never serves from it who comes back: what is set aside is to be used up', async () => {
    answer = (ask) => ({ ...generous(ask), extra: 4 });
    await takeMany(1);
    await Promise.all([batches.take(), batches.take(5_000)]);
    expect(asked.at(-1)).toMatchObject({ promises: [5_000], newcomers: 0, unused: 3 });
  });

  it('answers each with its own: those who come back stand first in a call', async () => {
    const over: Over = { kind: 'over', at: 9, waitMs: 1, rule: '1/1s' };
    answer = () => ({ answers: ['taken', over, 'taken', over], extra: 0 });
    const takes = [batches.take(), batches.take(7), batches.take(), batches.take(8)];
    const taken = { kind: 'taken', useBy: 1_100 };
    expect(await Promise.all(takes)).toEqual([taken, taken, over, over]);
  });

  it('rejects all that wait where a call fails, and gives back all of that call with the next', async () => {
    const failing = Promise.withResolvers<never>();
    answer = () => failing.promise;
    const waiting = [batches.take(), batches.take()];
    await expect.poll(() => asked).toHaveLength(1);
    waiting.push(batches.take());
    failing.reject(new Error('away'));
    const outcomes = await Promise.allSettled(waiting);
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(asked).toHaveLength(1);
    answer = generous;
    expect(await batches.take()).toMatchObject({ kind: 'taken' });
    expect(asked.map(({ unused }) => unused)).toEqual([0, Infinity]);
  });

  it('gives back what is left when nobody asks for two periods', async () => {
    vi.useFakeTimers();
    answer = (ask) => ({ ...generous(ask), extra: ask.newcomers > 0 ? 4 : 0 });
    await batches.take();
    await vi.advanceTimersByTimeAsync(199);
    expect(asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(asked.slice(1)).toEqual([{ unused: 4, promises: [], newcomers: 0, extra: 0 }]);
  });

  it('gives back what is left on close, also what a call brings that is under way; a failure of that is nobody’s', async () => {
    const release = Promise.withResolvers<undefined>();
    answer = async (ask) => {
      if (ask.newcomers === 0) throw new Error('away');
      await release.promise;
      return { ...generous(ask), extra: 4 };
    };
    const taken = batches.take();
    const closed = batches.close();
    release.resolve(undefined);
    expect(await taken).toMatchObject({ kind: 'taken' });
    await closed;
    expect(asked.map(({ unused }) => unused)).toEqual([0, 4]);
    await expect(batches.take()).rejects.toThrow('closed');
  });
});
