import { onTestFinished } from 'vitest';
import {
  startEmbeddedRedis,
  type EmbeddedRedis,
  type EmbeddedRedisOptions,
} from '../../sandbox/redis/embedded-redis.ts';

/** A Redis for one test alone, ended with it: what the test does to it, no other test feels. */
export async function ownRedis(options: EmbeddedRedisOptions = {}): Promise<EmbeddedRedis> {
  const redis = await startEmbeddedRedis(options);
  onTestFinished(() => redis.close());
  return redis;
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
