import { expect, it } from 'vitest';
import {
  createRedisLimiter,
  createRedisQuota,
  type RedisLimiterOptions,
  type RedisQuotaOptions,
} from '../../src/index.ts';

const rules = [{ max: 10, perMs: 60_000 }];

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
