import { Redis } from 'ioredis';
import type { TestProject } from 'vitest/node';
import { type EmbeddedRedis, startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { leftoverProcesses, markRun, strayKeys } from './leaks.ts';

/** What the projects of vitest.config.ts share: each runs this file, and each loads it anew. */
interface Run {
  users: number;
  readonly redis: Promise<EmbeddedRedis>;
}
const shared = globalThis as { pushpacerTestRun?: Run };

/** One Redis for the whole run; tests keep apart by prefix, those that stop it start one of their own. Leaks fail the run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.pushpacerTestRun ??= start();
  const run = shared.pushpacerTestRun;
  run.users += 1;
  project.provide('redisUrl', (await run.redis).url);
  project.provide('isCluster', false);
  return async () => {
    run.users -= 1;
    if (run.users === 0) await end(await run.redis);
  };
}

function start(): Run {
  markRun();
  return { users: 0, redis: startEmbeddedRedis({ say: (line) => process.stderr.write(`${line}\n`), install: true }) };
}

async function end(redis: EmbeddedRedis): Promise<void> {
  const connection = new Redis(redis.url);
  const keys = await strayKeys(connection).finally(() => {
    connection.disconnect();
  });
  await redis.close();
  const processes = await leftoverProcesses();
  const leaks = [...processes.map((line) => `process ${line}`), ...keys.map((key) => `key ${key}`)];
  if (leaks.length > 0) throw new Error(`the tests left behind:\n${leaks.join('\n')}`);
}
