import type { Redis } from 'ioredis';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import type { LimiterFactory } from '../contract/trial.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { AHEAD_MS } from './stored.ts';

/** A limiter in memory on a clock of the test's. */
export const inMemory: LimiterFactory = (policy, options) => {
  let now = Date.now();
  return {
    limiter: createMemoryLimiter({ policy, ...options, now: () => now }),
    now: () => now,
    advance: (ms) => {
      now += ms;
    },
  };
};

/** The same on Redis: ahead of its own clock, so that no key expires meanwhile. */
export const onRedis: LimiterFactory = (policy, options) => onRedisOf(connectRedis())(policy, options);

/** The same for many limiters on one connection. */
export function onRedisOf(redis: Redis): LimiterFactory {
  return (policy, options) => {
    let now = Date.now() + AHEAD_MS;
    const own = { redis: onClock(redis, () => now), policy, prefix: testPrefix() };
    return {
      limiter: createRedisLimiter({ ...own, ...options }),
      now: () => now,
      advance: (ms) => {
        now += ms;
      },
    };
  };
}

export const BOTH: readonly (readonly [where: string, create: LimiterFactory])[] = [
  ['in memory', inMemory],
  ['on Redis', onRedis],
];
