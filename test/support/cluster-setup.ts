import { Redis } from 'ioredis';
import type { TestProject } from 'vitest/node';
import { startEmbeddedCluster } from '../../sandbox/redis/embedded-cluster.ts';
import { strayKeys } from './leaks.ts';

/** For the project `slow-cluster`: a cluster in place of the one Redis of global-setup.ts. Stray keys fail the run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  const cluster = await startEmbeddedCluster({ replicas: 0, nodeTimeoutMs: 15_000, say, install: true }); // as NO_FAILOVER
  project.provide('redisUrl', cluster.url);
  project.provide('isCluster', true);
  return async () => {
    const keys = await Promise.all(cluster.nodes.map(({ url }) => strayKeysAt(url)));
    await cluster.close();
    if (keys.flat().length > 0) throw new Error(`the tests left behind:\n${keys.flat().join('\n')}`);
  };
}

function strayKeysAt(url: string): Promise<string[]> {
  const connection = new Redis(url);
  return strayKeys(connection).finally(() => {
    connection.disconnect();
  });
}
