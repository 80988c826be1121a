import { Queue } from 'bullmq';
import { expect, it } from 'vitest';
import { measureReplicas, type Layout } from '../../../bench/replicas/measure.ts';
import { startProviders } from '../../../demo/providers-process.ts';
import { startReplicas } from '../../../demo/replicas.ts';
import { NO_LATENCY } from '../../../sandbox/loopback/timing.ts';
import { judge, type Arrival } from '../../../sandbox/judge.ts';
import { QUEUE, shardOf, shardPrefixes } from '../../../src/queue/names.ts';
import { createProducer } from '../../../src/producer/producer.ts';
import { eventually, KEPT } from '../../support/fault-bench.ts';
import { ownRedis } from '../../support/own-redis.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { connectRedis, testPrefix } from '../../support/redis.ts';

/** Many worker processes. What a burst costs is in test/e2e/burst.test.ts. */
const WORKERS = 24;
const SHARDS = 4;
const RECIPIENTS = 2_000;
const BUSY = 120;
const POLICY = { rules: [{ max: 20, perMs: 3_500 }], minGapMs: 150 };

it(
  `${WORKERS} worker processes alert ${RECIPIENTS} recipients once each, and one of them ${BUSY} times within its limits`,
  { timeout: 600_000 },
  async () => {
    await using parts = new AsyncDisposableStack();
    const redis = await ownRedis();
    const connection = connectRedis(redis.url);
    const providers = parts.adopt(await startProviders({ latency: NO_LATENCY }), (it) => it.close());
    const prefix = testPrefix();
    const queues = shardPrefixes(prefix, SHARDS).map((of) =>
      parts.adopt(new Queue(QUEUE, { connection, prefix: of }), (it) => it.close()),
    );
    const replicas = await startReplicas({
      count: WORKERS,
      env: {
        ...providers.env,
        ...{ REDIS_URL: redis.url, QUEUE_PREFIX: prefix, QUEUE_SHARDS: String(SHARDS), WORKER_CONCURRENCY: '8' },
        ...{ LIMIT_RULES: '20/3500ms', LIMIT_MIN_GAP: '150ms' },
      },
    });
    parts.defer(async () => {
      await replicas.stop();
    });
    const to = (id: string, recipientId: string) =>
      makeNotification({ id, recipientId, devices: [makeDevice('apns')], data: { ref: id, to: recipientId } });
    const busy = Array.from({ length: BUSY }, (_, index) => to(`busy-${index}`, 'busy'));
    const others = Array.from({ length: RECIPIENTS }, (_, index) => to(`other-${index}`, `other-${index}`));
    const producer = parts.use(createProducer({ redisUrl: redis.url, prefix, shards: SHARDS, timeoutMs: 60_000 }));
    await producer.enqueueMany([...busy, ...others]);

    const isDone = async (): Promise<void> => {
      const counts = await Promise.all(queues.map((queue) => queue.getCompletedCount()));
      expect(counts.reduce((sum, count) => sum + count, 0)).toBe(BUSY + RECIPIENTS);
    };
    await eventually(isDone, 300_000);
    const arrivals = replicas.delays
      .counted(providers.entries, ({ data }) => data['ref'] ?? '')
      .filter((entry) => entry.accepted)
      .map(({ token, data, at, delayMs }): Arrival => ({
        recipientId: data['to'] ?? '',
        notificationId: data['ref'] ?? '',
        device: token,
        at,
        delayMs,
      }));
    expect(arrivals).toHaveLength(BUSY + RECIPIENTS);
    expect(judge(arrivals, POLICY)).toMatchObject(KEPT);
    const shard = queues[shardOf('busy', SHARDS)];
    const line = await Promise.all(busy.map(async ({ id }) => shard?.getJob(id)));
    const passes = line.reduce((sum, job) => sum + (job?.attemptsStarted ?? NaN), 0) / BUSY;
    expect(passes).toBeGreaterThan(1.5); // else hardly anything was blocked, and nothing was shown
    expect(await replicas.stop()).toEqual(Array(WORKERS).fill(0));
  },
);

const ONE: Layout = { workers: 1, shards: 1, isCluster: false };
const SHARDED: Layout = { ...ONE, shards: SHARDS };

it('a worker keeps two connections and one more for each shard, and asks for a job once a second', async () => {
  const amount = { idleMs: 5_000, notifications: 0 };
  for (const layout of [ONE, { ...SHARDED, workers: 3 }]) {
    const { connections, idle } = await measureReplicas(layout, amount);
    expect(connections).toBe(2 + layout.shards);
    // docs/redis.md: two a second for each shard, to ask for a job and to wait for one, and some more.
    expect(idle.sentPerSecond).toBeGreaterThan(1);
    expect(idle.sentPerSecond).toBeLessThan(5);
    expect(idle.callsPerSecond).toBeLessThan(16);
  }
}, 300_000);

it('in a cluster a worker keeps a bounded number of connections to each master', async () => {
  const { connections } = await measureReplicas({ ...SHARDED, isCluster: true }, { idleMs: 3_000, notifications: 0 });
  expect(connections).toBeGreaterThanOrEqual(2 + SHARDS);
  expect(connections).toBeLessThanOrEqual(2 * (3 + 1) + 3 * SHARDS);
}, 120_000);
