import { Redis } from 'ioredis';
import type { TestProject } from 'vitest/node';
import { type EmbeddedCluster, startEmbeddedCluster } from '../../sandbox/redis/embedded-cluster.ts';
import { leftoverProcesses, markRun, strayKeys } from './leaks.ts';

/** What the projects of vitest.config.ts share: each runs this file, and each loads it anew. */
interface Run {
  users: number;
  readonly redis: Promise<EmbeddedCluster>;
}
const shared = globalThis as { pushpacerTestRun?: Run };

/**
 * One Redis for the whole run; tests keep apart by prefix, those that stop it start one of their own. Leaks fail the run. It is
 * a cluster of one node: each test connects to it as to a single Redis, and it refuses as every cluster does (CROSSSLOT) a
 * command, a transaction or a script whose keys are not in one slot.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.pushpacerTestRun ??= start();
  const run = shared.pushpacerTestRun;
  run.users += 1;
  project.provide('redisUrl', (await run.redis).url);
  return async () => {
    run.users -= 1;
    if (run.users === 0) await end(await run.redis);
  };
}

function start(): Run {
  markRun();
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  const oneNode = { masters: 1, replicas: 0, extraArgs: ['--cluster-announce-ip', '127.0.0.1'] };
  return { users: 0, redis: startEmbeddedCluster({ ...oneNode, say, install: true }) };
}

async function end(redis: EmbeddedCluster): Promise<void> {
  const connection = new Redis(redis.url);
  const keys = await strayKeys(connection).finally(() => {
    connection.disconnect();
  });
  await redis.close();
  const processes = await leftoverProcesses();
  const leaks = [...processes.map((line) => `process ${line}`), ...keys.map((key) => `key ${key}`)];
  if (leaks.length > 0) throw new Error(`the tests left behind:\n${leaks.join('\n')}`);
}
