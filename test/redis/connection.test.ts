import type { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  createMemoryLimiter,
  createProducer,
  createRedisLimiter,
  createRedisQuota,
  InputError,
  LimiterUnavailableError,
  type RedisLimiterOptions,
  type RedisQuotaOptions,
  type RedisTarget,
} from '../../src/index.ts';
import { RedisAwayError, whenReady } from '../../src/redis/connection.ts';
import { createDeadline } from '../../src/redis/deadline.ts';
import { addressOf, openConnection } from '../../src/redis/target.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';

/** Never connects. */
function open(target: RedisTarget): Redis {
  const connection = openConnection(target, { lazyConnect: true });
  onTestFinished(() => {
    connection.disconnect();
  });
  return connection as Redis;
}

it('credentials and database in the URLs of Sentinels are those of Redis, the password beside them that of the Sentinels', () => {
  const redisUrl = 'redis://app:s3cr%40t@one/2, redis://[::1]:5000';
  const { options } = open({ redisUrl, sentinel: { name: 'mymaster', password: 'theirs' } });
  expect(options).toMatchObject({
    ...{ name: 'mymaster', role: 'master', username: 'app', password: 's3cr@t', db: 2, sentinelPassword: 'theirs' },
    sentinels: [
      { host: 'one', port: 26_379 },
      { host: '::1', port: 5_000 },
    ],
  });
  expect(options.tls).toBeUndefined();
});

it.each(['redis://one', 'redis://one/', 'redis://one?db=2', 'redis://one/15'])(
  'the database of %s is taken',
  (redisUrl) => {
    expect(open({ redisUrl }).options.db).toBe(Number(/\d+$/.exec(redisUrl)?.[0] ?? 0));
  },
);

it('rediss:// speaks TLS with the Sentinels and with Redis', () => {
  const { options } = open({ redisUrl: 'rediss://one', sentinel: { name: 'mymaster' } });
  expect(options).toMatchObject({
    enableTLSForSentinelMode: true,
    tls: {},
    sentinelTLS: {},
  });
});

it('an address names no credentials', () => {
  expect(addressOf(open({ redisUrl: 'redis://app:s3cret@one:7000/2' }))).toBe('one:7000');
  const target = {
    redisUrl: 'redis://:s3cret@one,redis://two:7000',
    sentinel: { name: 'mymaster', password: 'theirs' },
  };
  expect(addressOf(open(target))).toBe('mymaster by Sentinel one:26379, two:7000');
});

it.each([
  [{ redisUrl: 'redis://one,redis://two' }, /redisUrl: expected one URL, or cluster, or sentinel, found 2 URLs/],
  [
    { redisUrl: 'redis://one', cluster: true, sentinel: { name: 'mymaster' } },
    /sentinel: expected none, since cluster is true, found "mymaster"/,
  ],
  [{ sentinel: { name: 'mymaster' } }, /redisUrl: expected Sentinels, since sentinel is given, found nothing/],
  [{ redisUrl: 'redis://:s3cret@one/queue' }, /redisUrl: expected redis:.*database.* found a string of 25 characters/],
  [{ cluster: true, prefix: 'app' }, /prefix: expected a prefix with a {tag}, since cluster is true, found "app"/],
])('a producer with a target that contradicts itself is refused: %j', (target, fault) => {
  expect(() => createProducer(target)).toThrow(InputError);
  expect(() => createProducer(target)).toThrow(fault);
});

it('a mistake in the code is thrown as it is, and is no outage', async () => {
  const withResolvers = Object.getOwnPropertyDescriptor(Promise, 'withResolvers') ?? {};
  Reflect.deleteProperty(Promise, 'withResolvers'); // as on Node 20
  const waiting = whenReady(open({ redisUrl: 'redis://one' }), 10);
  Object.defineProperty(Promise, 'withResolvers', withResolvers);
  await expect(waiting).rejects.toThrow(TypeError);
  await expect(whenReady(open({ redisUrl: 'redis://one' }), 10)).rejects.toThrow(RedisAwayError);
});

it('what is asked in one turn of the event loop is written at once, and answered in order', async () => {
  const connection = open({ redisUrl: testRedisUrl() });
  await connection.connect();
  const key = testPrefix();
  const replies = [connection.set(key, '1'), connection.get(key), connection.del(key)];
  const pipelined = connection.pipeline().set(key, '2').del(key).exec();
  expect(connection.stream.writableCorked).toBe(1);
  expect(await Promise.all(replies)).toEqual(['OK', '1', 1]);
  expect(await pipelined).toEqual([
    [null, 'OK'],
    [null, 1],
  ]);
  expect(connection.stream.writableCorked).toBe(0);
  connection.set(key, '3').catch(() => undefined);
  connection.disconnect(); // what was written before it is still carried out
  const other = open({ redisUrl: testRedisUrl() });
  await other.connect();
  expect(await other.getdel(key)).toBe('3');
});

describe('a deadline', () => {
  it.each([0, -1, NaN, Infinity, 2 ** 31])('of %d ms is refused', (timeoutMs) => {
    expect(() => createDeadline(timeoutMs)).toThrow(InputError);
    expect(() => createDeadline(timeoutMs)).toThrow(
      `timeoutMs: expected milliseconds, from 1 to 2147483647, found ${timeoutMs}`,
    );
  });

  it.each([1, 0.5 + 1, 2 ** 31 - 1])('of %d ms passes an answer on', async (timeoutMs) => {
    expect(await createDeadline(timeoutMs)(Promise.resolve('yes'))).toBe('yes');
  });

  it('gives up what is not answered, each in its own time, and what fails with its reason', async () => {
    const answered = createDeadline(30);
    const never = new Promise<never>(() => undefined);
    const startedAt = performance.now();
    await expect(answered(never)).rejects.toThrow(LimiterUnavailableError);
    await expect(answered(never)).rejects.toThrow('did not answer within 30 ms');
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(60);
    const cause = new Error('READONLY');
    await expect(answered(Promise.reject(cause))).rejects.toMatchObject({ name: 'LimiterUnavailableError', cause });
  });
});

const rules = [{ max: 10, perMs: 60_000 }];
const policy = { rules, minGapMs: 0 };
const redis = { defineCommand: () => undefined };

const CREATE: Readonly<Record<string, (options: never) => unknown>> = {
  ...{ createRedisLimiter, createMemoryLimiter, createRedisQuota },
};

it.each([
  ['createRedisLimiter', { redis, policy, timeout: 500 }, 'timeout: expected no such field (did you mean timeoutMs?)'],
  ['createRedisLimiter', { redis, rules }, 'rules: expected no such field (did you mean policy?)'],
  ['createRedisLimiter', { redis, polcy: policy }, 'polcy: expected no such field (did you mean policy?)'],
  ['createRedisLimiter', { redis, policy, onUnavailable: 'opened' }, 'onUnavailable: expected closed, open or memory'],
  ['createRedisLimiter', { redis, policy, prefix: 7 }, 'prefix: expected a text, found 7'],
  ['createRedisLimiter', { redis, policy: { ...policy, exempt: ['gap'] } }, 'policy.exempt: expected no such field'],
  ['createRedisLimiter', undefined, 'expected an object with options, found nothing'],
  ['createMemoryLimiter', { policy, redis }, 'redis: expected no such field (did you mean createRedisLimiter?)'],
  ['createMemoryLimiter', {}, 'policy: expected an object: { rules: [{ max, perMs }], minGapMs }, found nothing'],
  ['createMemoryLimiter', { policy, categories: [policy] }, 'categories: expected an object'],
  [
    'createMemoryLimiter',
    { policy, categories: { messages: { rules: [] } } },
    'categories.messages.minGapMs: expected an integer of milliseconds',
  ],
  [
    'createRedisQuota',
    { redis, name: 'all', rules, lease: 5 },
    'lease: expected no such field (did you mean leaseMs?)',
  ],
  ['createRedisQuota', { redis, name: 'all', max: 5 }, 'max: expected no such field (did you mean rules?)'],
  ['createRedisQuota', { redis, name: 'all' }, 'rules: expected an array of rules'],
  ['createRedisQuota', { redis, name: 7, rules: [] }, 'name: expected 1 to 128'],
])('%s refuses %j', (name, options, message) => {
  const create = (): unknown => CREATE[name]?.(options as never);
  expect(create).toThrow(InputError);
  expect(create).toThrow(message);
});

it('a quota ends with the block that uses it', async () => {
  const left = await (async () => {
    await using quota = createRedisQuota({ redis: connectRedis(), name: 'all', rules, prefix: testPrefix() });
    expect(await quota.take()).toMatchObject({ kind: 'taken' });
    return quota;
  })();
  await expect(left.take()).rejects.toThrow('the quota is closed');
  await left.close();
});

it.each([
  ['redis://:s3cret@127.0.0.1', 'a string of 25 characters'],
  [undefined, 'nothing'],
  [null, 'null'],
  [{ url: 'redis://:s3cret@127.0.0.1' }, 'an object'],
])('%j in place of a client is refused, and no password is shown', (redis, found) => {
  const message = `unusable options: redis: expected a Redis or Cluster of ioredis, found ${found}`;
  const ofLimiter = { redis, policy: { rules, minGapMs: 0 } } as unknown as RedisLimiterOptions;
  expect(() => createRedisLimiter(ofLimiter)).toThrow(message);
  expect(() => createRedisQuota({ redis, name: 'all', rules } as unknown as RedisQuotaOptions)).toThrow(message);
});
