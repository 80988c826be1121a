import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { startEmbeddedRedis, type EmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { createProducer } from '../../../src/producer/producer.ts';
import { SLOTS } from '../../../src/queue/names.ts';
import { clusterEnv } from '../../support/cluster.ts';
import { startProcess } from '../../support/process.ts';
import { openSandbox } from '../../support/providers.ts';
import { makeNotification } from '../../support/push.ts';
import { testPrefix } from '../../support/redis.ts';

/** Servers that are to be a cluster: nobody has told them of each other, and no slot has a master. */
async function openNodes(count: number): Promise<{ readonly nodes: EmbeddedRedis[]; readonly url: string }> {
  const extraArgs = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
  const nodes = await Promise.all(Array.from({ length: count }, () => startEmbeddedRedis({ extraArgs })));
  onTestFinished(async () => {
    await Promise.all(nodes.map((node) => node.close()));
  });
  return { nodes, url: nodes.map(({ url }) => url).join(',') };
}

async function ask(node: EmbeddedRedis, ...command: readonly (string | number)[]): Promise<unknown> {
  const redis = new Redis(node.url);
  return redis.call('CLUSTER', ...command.map(String)).finally(() => redis.disconnect());
}

/** The first and the last slot of a master. */
const rangeOf = (index: number, count: number): [number, number] => [
  Math.round((index * SLOTS) / count),
  Math.round(((index + 1) * SLOTS) / count) - 1,
];

async function startWorker(url: string) {
  const [sandbox, prefix] = [await openSandbox(), testPrefix()];
  const env = { ...sandbox.env(), ...clusterEnv({ url }, prefix, 4), METRICS_PORT: '0' };
  const worker = startProcess({ args: ['workers/notifications.ts'], env });
  return { sandbox, worker, prefix };
}

test('a worker that is started while the cluster forms takes jobs when it is ready', async () => {
  const { nodes, url } = await openNodes(3);
  const { sandbox, worker, prefix } = await startWorker(url);
  await worker.waitForLine(/no connection to Redis/);
  // Some slots have a master, others have none: for seconds.
  const [first] = nodes as [EmbeddedRedis];
  await ask(first, 'ADDSLOTSRANGE', ...rangeOf(0, 3));
  await sleep(1_500);
  for (const [index, node] of nodes.entries()) {
    if (index === 0) continue;
    await ask(first, 'MEET', '127.0.0.1', node.port);
    await sleep(500);
    await ask(node, 'SET-CONFIG-EPOCH', index + 1).catch(() => undefined); // it may have one by now
    await ask(node, 'ADDSLOTSRANGE', ...rangeOf(index, 3));
  }
  await worker.waitForLine(/"msg":"ready"/, 40_000);
  const producer = createProducer({ redisUrl: url, cluster: true, prefix, shards: 4 });
  onTestFinished(() => producer.close());
  const inputs = Array.from({ length: 12 }, (_, at) => makeNotification({ recipientId: `r${at}` }));
  expect((await producer.enqueueMany(inputs)).map(({ kind }) => kind)).toEqual(inputs.map(() => 'added'));
  await sandbox.journal.waitFor(inputs.length, { timeoutMs: 20_000 });
  worker.kill('SIGTERM');
  expect((await worker.waitForExit()).code).toBe(0);
}, 90_000);

test('where the cluster never forms, the worker ends with exit 1 and says why', async () => {
  const { url } = await openNodes(3);
  const { worker } = await startWorker(url);
  const { code, stdout } = await worker.waitForExit(60_000);
  expect(code).toBe(1);
  expect(stdout).toMatch(/"level":"warn".*not every slot has a master.*"msg":"no connection to Redis/);
  const { err, msg } = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as { err: Error; msg: string };
  expect(err.message).toMatch(/^Redis is away: 127.*\(the cluster was not ready .* not every slot has a master\)$/);
  expect(msg).toBe('the worker could not start, and exits with code 1');
}, 90_000);
