import { Redis } from 'ioredis';
import { inject, onTestFinished } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    redisUrl: string;
  }
}

/** The Redis that the whole test run shares (started by test/support/global-setup.ts). */
export function testRedisUrl(): string {
  return inject('redisUrl');
}

/** A connection that is closed when the test ends. */
export function connectRedis(url = testRedisUrl()): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  onTestFinished(() => {
    redis.disconnect();
  });
  return redis;
}

/** A key prefix of its own for each test, hash-tagged: `{test-4f2a…}`. */
export function testPrefix(): string {
  return `{test-${crypto.randomUUID().slice(0, 8)}}`;
}

/** The environment of a command at the tests' Redis, whatever this process was started with. */
export const queueEnv = (prefix: string) => ({
  REDIS_URL: testRedisUrl(),
  QUEUE_PREFIX: prefix,
  QUEUE_SHARDS: undefined,
  REDIS_CLUSTER: undefined,
});
