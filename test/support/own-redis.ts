import { expect, onTestFinished } from 'vitest';
import {
  startEmbeddedRedis,
  type EmbeddedRedis,
  type EmbeddedRedisOptions,
} from '../../sandbox/redis/embedded-redis.ts';
import { connectRedis } from './redis.ts';
import { waitFor } from './wait.ts';

/** A Redis for one test alone, ended with it: what the test does to it, no other test feels. */
export async function ownRedis(options: EmbeddedRedisOptions = {}): Promise<EmbeddedRedis> {
  const redis = await startEmbeddedRedis(options);
  onTestFinished(() => redis.close());
  return redis;
}

/** The same as a cluster of one node, which has all slots. */
export async function ownCluster(): Promise<EmbeddedRedis> {
  const node = await ownRedis({ extraArgs: ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'] });
  const redis = connectRedis(node.url);
  await redis.cluster('ADDSLOTSRANGE', 0, 16_383);
  await waitFor(async () => expect(await redis.cluster('INFO')).toContain('cluster_state:ok'));
  return node;
}

/** Until the end of `work`, the process stands still: what is sent to it meanwhile arrives after that. */
export async function frozen(pid: number, work: () => Promise<void>): Promise<void> {
  process.kill(pid, 'SIGSTOP');
  try {
    await work();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}
