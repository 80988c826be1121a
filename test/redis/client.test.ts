import { expect, it } from 'vitest';
import {
  createMemoryLimiter,
  createRedisLimiter,
  createRedisQuota,
  InputError,
  type RedisLimiterOptions,
  type RedisQuotaOptions,
} from '../../src/index.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

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
