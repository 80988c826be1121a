import type { TestProject } from 'vitest/node';
import { startEmbeddedRedis } from '../../src/sandbox/embedded-redis.ts';

/** One Redis for the whole run; tests keep apart by prefix, those that stop it start one of their own. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const redis = await startEmbeddedRedis({ say: (line) => process.stderr.write(`${line}\n`) });
  project.provide('redisUrl', redis.url);
  return () => redis.close();
}
