import { setTimeout as sleep } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { createRedisQuota, quotaKeys } from '../../src/quota/redis-quota.ts';
import { checkTerms, type Quota } from '../../src/quota/quota.ts';
import { readScript } from '../../src/redis/scripts.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { AHEAD_MS } from '../limiter/stored.ts';
import { expectWithin } from '../limiter/windows.ts';

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
      createRedisQuota({ redis: connectRedis(), name: 'fcm', rules, prefix }),
    );
    const used: number[] = [];
    let asks = 0;
    const send = async (quota: Quota): Promise<void> => {
      for (let promisedAt: number | undefined; ;) {
        asks += 1;
        const answer = await quota.take(promisedAt);
        if (answer.kind === 'over') {
          promisedAt = answer.at;
          await sleep(answer.waitMs);
        } else {
          promisedAt = undefined;
          const at = performance.now();
          if (at >= answer.useBy) continue; // it came too late: thrown away
          used.push(at);
          return;
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
    expectWithin(
      rules.map(({ max, perMs }) => ({ max, perMs: perMs * 0.999 })),
      used,
    );
    expect(asks).toBeLessThan(480 * 4); // one requeue each in quiet; a crowded machine wakes late
  });
});

describe('what stays in Redis', () => {
  it('is a handful of keys under one hash tag that expire with the window, and the lease after a minute', async () => {
    const [redis, prefix, now] = [connectRedis(), testPrefix(), Date.now() + AHEAD_MS];
    const quota = createRedisQuota({ redis, name: 'fcm', rules: [{ max: 2, perMs: 60_000 }], prefix, now: () => now });
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

  it('is gone by itself once the windows have passed', async () => {
    const [redis, prefix] = [connectRedis(), testPrefix()];
    const quota = createRedisQuota({ redis, name: 'fcm', rules: [{ max: 2, perMs: 20 }], prefix });
    const answers = await Promise.all([quota.take(), quota.take(), quota.take()]);
    expect(answers.at(-1)).toMatchObject({ kind: 'over' });
    const left = async () =>
      (await redis.keys(`*${prefix.slice(1, -1)}:quota:*`)).filter((key) => !key.includes(':lease:'));
    await expect.poll(left, { timeout: 5_000 }).toEqual([]);
    const [lease = ''] = await redis.keys(`*${prefix.slice(1, -1)}:quota:*`);
    expect(await redis.pttl(lease)).toBeGreaterThan(0);
  });

  it('stays small: a bucket out of its window goes with the next write', async () => {
    const [redis, prefix] = [connectRedis(), testPrefix()];
    let now = Date.now() + AHEAD_MS;
    const quota = createRedisQuota({ redis, name: 'fcm', rules: MINUTELY, prefix, now: () => now });
    for (let turn = 0; turn < 500; turn += 1) {
      now += 500;
      await quota.take();
    }
    const entries = await redis.zcard(`${prefix.slice(1, -1)}:quota:{fcm}:60000:taken`);
    expect(entries).toBeGreaterThan(90);
    expect(entries).toBeLessThanOrEqual(103);
  });

  it('and was taken under a clock that is gone is dropped, the promises too', async () => {
    const [redis, prefix] = [connectRedis(), testPrefix()];
    let now = Date.now() + 3 * AHEAD_MS;
    const quota = createRedisQuota({ redis, name: 'fcm', rules: [{ max: 2, perMs: 60_000 }], prefix, now: () => now });
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
    const [redis, prefix] = [connectRedis(), testPrefix()];
    let now = Date.now() + AHEAD_MS;
    const options = { redis, name: 'fcm', rules: MINUTELY, prefix, now: () => now };
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
    const [redis, prefix, now] = [connectRedis(), testPrefix(), Date.now() + AHEAD_MS];
    const options = { redis, name: 'fcm', rules: [{ max: 100, perMs: 60_000 }], prefix, now: () => now };
    const [quota, other] = [createRedisQuota(options), createRedisQuota(options)];
    await Promise.all(Array.from({ length: 60 }, () => quota.take()));
    await quota.take();
    expect(await other.used()).toMatchObject([{ used: 61 + Math.floor(39 / 4) }]);
    const rest = await Promise.all(Array.from({ length: 30 }, () => other.take()));
    expect(rest.every(({ kind }) => kind === 'taken')).toBe(true);
  });

  it('is taken once where the client resends a call, and to nobody where a later call came first', async () => {
    const [redis, prefix, now] = [connectRedis(), testPrefix(), Date.now() + AHEAD_MS];
    const { tiers } = checkTerms({ name: 'fcm', rules: MINUTELY });
    const keys = quotaKeys(prefix, 'fcm', 'me', tiers);
    const limits = tiers.flatMap(({ max, widthMs, span, slack }) => [max, widthMs, span, slack]);
    const call = (number: number, unused: number) =>
      redis.eval(SCRIPT, keys.length, ...keys, number, unused, 3, 7, now, ...limits) as Promise<unknown[]>;
    const first = await call(1, 0);
    expect(first).toEqual([now, 7, [0, 0, 0, 0, 0, 0], [10]]);
    expect(await call(1, 0)).toEqual(first);
    expect((await call(2, 4))[3]).toEqual([16]);
    expect((await call(4, 1e12))[3]).toEqual([26]); // call 3 never came: what it may have had is unknown
    await expect(call(3, 0)).rejects.toThrow('overtaken by a later one');
    expect((await call(5, 1e12))[3]).toEqual([26]);
  });
});

describe('Redis misbehaving', () => {
  it('hangs: the wait is bounded, and what the lost call took is given back', async () => {
    const server = await startEmbeddedRedis();
    const redis = new Redis(server.url, { maxRetriesPerRequest: null });
    onTestFinished(async () => {
      redis.disconnect();
      await server.close();
    });
    const quota = createRedisQuota({ redis, name: 'fcm', rules: MINUTELY, timeoutMs: 100 });
    await quota.take();
    await redis.client('PAUSE', 400);
    const lost = await Promise.allSettled([quota.take(), quota.take(), quota.used()]);
    for (const outcome of lost) expect(outcome).toMatchObject({ reason: { name: 'LimiterUnavailableError' } });
    await expect.poll(() => quota.take().catch(() => 'away'), { timeout: 5_000 }).toMatchObject({ kind: 'taken' });
    await quota.close();
    expect(await quota.used()).toMatchObject([{ used: 2 }]);
    await redis.script('FLUSH');
    expect(await quota.used()).toMatchObject([{ used: 2 }]);
  });

  it('refuses: the reason is told, and close ends all the same', async () => {
    const redis = new Redis({ lazyConnect: true });
    redis.disconnect();
    const quota = createRedisQuota({ redis, name: 'fcm', rules: MINUTELY });
    await expect(quota.take()).rejects.toThrow(LimiterUnavailableError);
    await quota.close();
  });
});

it('works on a cluster', async () => {
  const server = await startEmbeddedRedis({
    extraArgs: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'],
  });
  const own = new Redis(server.url, { maxRetriesPerRequest: null });
  await own.cluster('ADDSLOTSRANGE', 0, 16_383);
  await expect.poll(() => own.cluster('INFO'), { timeout: 10_000 }).toContain('cluster_state:ok');
  const cluster = new Cluster([{ host: '127.0.0.1', port: server.port }]);
  onTestFinished(async () => {
    cluster.disconnect();
    own.disconnect();
    await server.close();
  });
  const rules = [...MINUTELY, { max: 1, perMs: 1_000 }];
  const quota = createRedisQuota({ redis: cluster, name: 'fcm', rules, prefix: '{pushpacer}' });
  expect(await quota.take()).toMatchObject({ kind: 'taken' });
  expect(await quota.take()).toMatchObject({ kind: 'over', rule: '1/1s' });
  await quota.close();
});

describe('the script', () => {
  it('names no more KEYS or ARGV by number than the wrapper sends before those of the tiers', () => {
    const code = SCRIPT.replaceAll(/--.*$/gm, '');
    const highest = (array: string) =>
      Math.max(...[...code.matchAll(new RegExp(`${array}\\[(\\d+)\\]`, 'g'))].map((match) => Number(match[1])));
    expect([highest('KEYS'), highest('ARGV')]).toEqual([2, 5]);
  });

  it('uses no command beyond those of Redis 6', () => {
    const commands = new Set([...SCRIPT.matchAll(/redis\.call\('([A-Z]+)'/g)].map((match) => match[1]));
    expect([...commands].sort()).toEqual([
      'DEL',
      'GET',
      'PEXPIREAT',
      'SET',
      'TIME',
      'ZADD',
      'ZRANGEBYSCORE',
      'ZREM',
      'ZREMRANGEBYSCORE',
    ]);
  });
});
