import { Cluster, Redis } from 'ioredis';
import { inject, onTestFinished } from 'vitest';
import { steady } from '../../src/redis/cluster.ts';

declare module 'vitest' {
  interface ProvidedContext {
    redisUrl: string;
    isCluster: boolean;
  }
}

/** The Redis that the whole test run shares (started by test/support/global-setup.ts). A cluster in the project `slow-cluster`. */
export function testRedisUrl(): string {
  return inject('redisUrl');
}

/** Whether that is a cluster. What a test starts by itself is none: `test.skipIf(isOnCluster)`. */
export const isOnCluster = inject('isCluster');

/** The same for a producer. */
export const testTarget = () => ({ redisUrl: testRedisUrl(), cluster: isOnCluster });

/** The same as variables of a worker, a command or a server, whatever this process was started with. */
export const redisEnv = () => ({ REDIS_URL: testRedisUrl(), REDIS_CLUSTER: String(isOnCluster) });

/** A connection that is closed when the test ends. */
export function connectRedis(url = testRedisUrl()): Redis {
  const redis = url.includes(',') ? connectNodes(url) : new Redis(url, { maxRetriesPerRequest: null });
  onTestFinished(() => {
    redis.disconnect();
  });
  return redis;
}

/** All of a cluster, as the one Redis that most tests take it for. */
function connectNodes(text: string): Redis {
  const urls = text.split(',').map((url) => new URL(url));
  const { username = '', password = '', protocol } = urls[0] ?? {};
  const signIn = { ...(username !== '' && { username }), ...(password !== '' && { password }) };
  const tls = protocol === 'rediss:' && { tls: {} };
  const cluster = new AllNodes(
    urls.map(({ hostname, port }) => ({ host: hostname, port: Number(port) })),
    { redisOptions: { maxRetriesPerRequest: null, ...signIn, ...tls } },
  );
  return steady(cluster) as unknown as Redis;
}

class AllNodes extends Cluster {
  /** Of all masters: a cluster's client asks any one of its nodes. */
  override keys = async (pattern: string | Buffer): Promise<string[]> => {
    await this.ping(); // it knows no nodes before it is connected
    const found = await Promise.all(this.nodes('master').map((node) => node.keys(String(pattern))));
    return found.flat();
  };
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
