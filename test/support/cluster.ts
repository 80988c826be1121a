import { Cluster } from 'ioredis';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import {
  startEmbeddedCluster,
  type ClusterNode,
  type EmbeddedCluster,
  type EmbeddedClusterOptions,
} from '../../sandbox/redis/embedded-cluster.ts';
import { testRedisUrl } from './redis.ts';

/** The cluster of a test file, for use within its tests. */
export type TestCluster = Pick<EmbeddedCluster, 'url' | 'nodes'>;

const START_LIMIT_MS = 60_000;

/** For tests in which no master is to fail: a busy machine stands still for longer than the 2 s of the default now and then. */
export const NO_FAILOVER = { nodeTimeoutMs: 15_000 } as const;

/** A Redis Cluster for all tests of a file, or of a `describe`: call it there, not within a test. It is closed after them. */
export function testCluster(options: EmbeddedClusterOptions = {}): TestCluster {
  let cluster: EmbeddedCluster | undefined;
  beforeAll(async () => {
    cluster = await startEmbeddedCluster(options);
  }, START_LIMIT_MS);
  afterAll(() => cluster?.close());
  const started = (): EmbeddedCluster => {
    if (cluster === undefined) throw new Error('the cluster is not there before the tests begin');
    return cluster;
  };
  return {
    get url() {
      return started().url;
    },
    get nodes() {
      return started().nodes;
    },
  };
}

/**
 * A connection to all of a cluster (default: the Redis of the test run, which is one), closed when the test ends. Commands wait
 * while a master is replaced.
 */
export function connectCluster({ nodes }: { readonly nodes?: readonly Pick<ClusterNode, 'port'>[] } = {}): Cluster {
  const startup = nodes?.map(({ port }) => ({ host: '127.0.0.1', port })) ?? [testRedisUrl()];
  const connection = new Cluster(startup, {
    redisOptions: { maxRetriesPerRequest: null },
    clusterRetryStrategy: () => 100,
  });
  connection.on('error', () => undefined); // a node that a test killed; what matters is the command's own answer
  onTestFinished(() => {
    connection.disconnect();
  });
  return connection;
}

/** The environment of a worker or a command at a cluster, whatever this process was started with. */
export const clusterEnv = ({ url }: { readonly url: string }, prefix: string, shards = 1) => ({
  REDIS_URL: url,
  REDIS_CLUSTER: 'true',
  QUEUE_PREFIX: prefix,
  QUEUE_SHARDS: String(shards),
});
