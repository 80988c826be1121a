import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import type { Cluster, Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startProviders } from '../../../demo/providers-process.ts';
import { DELAYS } from '../../../demo/replicas.ts';
import { main as status } from '../../../scripts/status.ts';
import { prefixesOf, readLayout } from '../../../src/queue/shards/layout.ts';
import { DEAD_LETTERS, layoutKey, QUEUE } from '../../../src/queue/names.ts';
import { createProducer } from '../../../src/producer/producer.ts';
import { clusterEnv, connectCluster, NO_FAILOVER, testCluster } from '../../support/cluster.ts';
import { runMain } from '../../support/command.ts';
import { startProcess, type TestProcess } from '../../support/process.ts';
import { delaysOf, openRealBench } from '../../support/real-bench.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../../support/redis.ts';
import { expectExactlyOnce, outcomesOf, startLoad } from '../../support/reshard-load.ts';

/** The number of shards changes under load, with worker processes and providers, and is judged by what arrived. */

const POLICY = { rules: [{ max: 8, perMs: 2_000 }], minGapMs: 150 };
const ENV = {
  ...{ LIMIT_RULES: '8/2s', LIMIT_MIN_GAP: '150ms', WORKER_CONCURRENCY: '30', SHUTDOWN_GRACE: '10s' },
  ...{ OUTCOMES_MAX: '100000', HISTORY_MAX: '10000' },
};
const PATIENT = { timeout: 240_000, interval: 250 };

type Env = Readonly<Record<string, string | undefined>>;

interface Place {
  readonly env: Env;
  readonly prefix: string;
  readonly redis: Redis;
}

/** Runs the command to its end. What it says is `left` may be what the load has added to a former queue since all was moved. */
async function reshard(to: number, env: Env): Promise<Readonly<Record<string, unknown>>> {
  const command = startProcess({ args: ['scripts/reshard.ts', '--to', String(to), '--json'], env });
  const { code, stdout, stderr } = await command.waitForExit(240_000);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, unknown>;
}

/** SIGKILL after so long. Resolves when nobody has its lease: it has run out, and no worker has taken it to go on with the moves. */
async function reshardKilled(to: number, { env, prefix, redis }: Place, afterMs: number): Promise<void> {
  const command = startProcess({ args: ['scripts/reshard.ts', '--to', String(to), '--json'], env });
  await sleep(afterMs);
  command.kill('SIGKILL');
  await command.waitForExit();
  await expect.poll(() => redis.exists(`${layoutKey(prefix)}:lease`), PATIENT).toBe(0);
}

/** What the queues of all prefixes still have to do. */
async function leftIn(connection: Cluster | Redis, prefix: string): Promise<number> {
  const layout = await readLayout(connection, prefix);
  let left = 0;
  for (const of of layout === undefined ? [prefix] : prefixesOf(layout)) {
    const queue = new Queue(QUEUE, { connection, prefix: of, skipMetasUpdate: true });
    left += await queue.getJobCountByTypes('wait', 'prioritized', 'delayed', 'active', 'failed');
    left += await connection.hlen(`${of}:moving`);
    await queue.close();
  }
  return left;
}

async function deadIn(connection: Cluster | Redis, prefix: string): Promise<string[]> {
  const layout = await readLayout(connection, prefix);
  const found: string[] = [];
  for (const of of layout?.prefixes ?? [prefix]) {
    const queue = new Queue(DEAD_LETTERS, { connection, prefix: of, skipMetasUpdate: true });
    found.push(...(await queue.getJobs(['wait'])).map(({ id }) => id ?? ''));
    await queue.close();
  }
  return found.toSorted();
}

it('1 becomes 4, and 2, under load, with the command killed five times: each notification ends once', async () => {
  const bench = await openRealBench();
  const { providers, prefix, env, queue } = bench;
  const redis = connectRedis();
  for (let started = 0; started < 3; started += 1) await bench.startWorker(ENV);
  const producer = createProducer({ redisUrl: testRedisUrl(), prefix });
  onTestFinished(() => producer.close());
  const load = startLoad({ producer, older: queue, providers, recipients: 30, everyMs: 150 });
  await expect.poll(() => bench.accepted().length, PATIENT).toBeGreaterThan(20);

  // Before it prepares, while it prepares, as it begins to move, and later.
  for (const afterMs of [1_000 + Math.random() * 4_000, 12_000 + Math.random() * 6_000]) {
    await reshardKilled(4, { env, prefix, redis }, afterMs);
  }
  expect(await reshard(4, env)).toMatchObject({ to: 4 });
  expect(await readLayout(redis, prefix)).toMatchObject({ phase: 'steady', former: [[prefix]] });
  for (const afterMs of [8_000, 14_000, 18_000].map((ms) => ms + Math.random() * 4_000)) {
    await reshardKilled(2, { env, prefix, redis }, afterMs);
  }
  expect(await reshard(2, env)).toMatchObject({ to: 2 });
  const shards = await readLayout(redis, prefix);
  expect(shards).toMatchObject({ phase: 'steady' });
  expect(shards?.prefixes).toHaveLength(2);
  await load.stop();
  await expect.poll(() => leftIn(redis, prefix), PATIENT).toBe(0);

  const { sent } = load;
  expect(sent.size).toBeGreaterThan(500);
  expectExactlyOnce(sent, await outcomesOf(redis, prefix), bench.accepted(), POLICY);
  const dead = [...sent.keys()].filter((id) => id.startsWith('dead-'));
  expect(dead.length).toBeGreaterThan(10);
  expect(await deadIn(redis, prefix)).toEqual(dead.toSorted());
  const { stdout } = await runMain(status, ['--json'], env);
  expect(JSON.parse(stdout)).toMatchObject({ shards: { phase: 'steady', from: 2, to: 2, left: 0 }, workersAlive: 3 });
}, 900_000);

describe('on a cluster', () => {
  const cluster = testCluster({ replicas: 0, ...NO_FAILOVER });

  it('2 become 3 under load: each notification ends once', async () => {
    const providers = await startProviders();
    onTestFinished(() => providers.close());
    const prefix = testPrefix();
    const redis = connectCluster(cluster);
    const env = { ...providers.env, ...clusterEnv(cluster, prefix, 2), METRICS_PORT: '0' };
    const workers: TestProcess[] = [];
    for (let started = 0; started < 2; started += 1) {
      const worker = startProcess({ args: ['--import', DELAYS, 'workers/notifications.ts'], env: { ...env, ...ENV } });
      workers.push(worker);
      await worker.waitForLine(/"msg":"ready"/, 60_000);
    }
    const producer = createProducer({ redisUrl: cluster.url, cluster: true, prefix, shards: 2 });
    onTestFinished(() => producer.close());
    const first = (await readLayout(redis, prefix))?.prefixes[0] ?? '';
    const older = new Queue(QUEUE, { connection: redis, prefix: first });
    onTestFinished(() => older.close());
    const load = startLoad({ producer, older, providers, recipients: 30, everyMs: 200 });
    const { sent } = load;
    await expect.poll(() => sent.size, PATIENT).toBeGreaterThan(100);
    expect(await reshard(3, env)).toMatchObject({ from: 2, to: 3 });
    expect(await readLayout(redis, prefix)).toMatchObject({ phase: 'steady' });
    await load.stop();
    await expect.poll(() => leftIn(redis, prefix), PATIENT).toBe(0);
    const entries = providers.entries.filter((entry) => entry.accepted).toSorted((a, b) => a.at - b.at);
    const accepted = delaysOf(workers).counted(entries, ({ data }) => data['ref'] ?? '');
    expectExactlyOnce(sent, await outcomesOf(redis, prefix), accepted, POLICY);
  }, 600_000);
});
