import { Redis } from 'ioredis';
import { inject, onTestFinished } from 'vitest';
import { connectProducer } from '../../src/redis/connection.ts';

declare module 'vitest' {
  interface ProvidedContext {
    redisUrl: string;
  }
}

/** The Redis that the whole test run shares (started by test/support/global-setup.ts). */
export function testRedisUrl(): string {
  return inject('redisUrl');
}

/** The same for a producer. */
export const testTarget = () => ({ redisUrl: testRedisUrl() });

/** The same as variables of a worker, a command or a server, whatever this process was started with. */
export const redisEnv = () => ({ REDIS_URL: testRedisUrl(), REDIS_CLUSTER: 'false' });

/** A connection that is closed when the test ends. `url` may name all nodes of a cluster: it is used as the one Redis then. */
export function connectRedis(url = testRedisUrl()): Redis {
  const isCluster = url.includes(',');
  const redis = isCluster
    ? (connectProducer({ redisUrl: url, cluster: true }) as unknown as Redis)
    : new Redis(url, { maxRetriesPerRequest: null });
  onTestFinished(() => {
    redis.disconnect();
  });
  return redis;
}

/** A key prefix of its own for each test, hash-tagged: `{test-4f2a…}`. A model makes 20,000, so two alike must not come. */
export function testPrefix(): string {
  return `{test-${crypto.randomUUID().replaceAll('-', '').slice(0, 16)}}`;
}

/** The environment of a command at the tests' Redis, whatever this process was started with. */
export const queueEnv = (prefix: string) => ({
  ...redisEnv(),
  QUEUE_PREFIX: prefix,
  QUEUE_SHARDS: undefined,
});
