import { setTimeout as sleep } from 'node:timers/promises';
import { DelayedError, Queue, UnrecoverableError, type Processor } from 'bullmq';
import { Redis } from 'ioredis';
import { expect, onTestFinished, test, vi } from 'vitest';
import { QUEUE } from '../../src/queue/names.ts';
import { NotificationWorker } from '../../src/queue/notification-worker.ts';
import { workerOptions } from '../../src/queue/worker-options.ts';
import { startEmbeddedRedis } from '../../src/sandbox/embedded-redis.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';
import { notification } from './support.ts';

const SOON = { timeout: 15_000, interval: 20 };

function open(processor: Processor, redisUrl = testRedisUrl()) {
  const prefix = testPrefix();
  const connection = connectRedis(redisUrl);
  const queue = new Queue(QUEUE, { connection, prefix });
  const letGo: string[] = [];
  const options = workerOptions({ connection, prefix, concurrency: 5, lockMs: 1_000, maxStalls: 10 });
  const worker = new NotificationWorker(QUEUE, processor, options, (job, error) => {
    letGo.push(`${job.id}: ${error.message}`);
  });
  worker.on('error', () => undefined);
  void worker.run();
  onTestFinished(async () => {
    await worker.close();
    await queue.close();
  });
  return { queue, letGo, lockKey: (id: string) => `${queue.toKey(id)}:lock`, redis: connectRedis(redisUrl) };
}

test('a job whose end Redis refuses for now is completed when it does not any more, and never failed', async () => {
  const server = await startEmbeddedRedis();
  const admin = new Redis(server.url);
  onTestFinished(async () => {
    admin.disconnect();
    await server.close();
  });
  let runs = 0;
  const { queue, letGo } = open(async () => {
    runs += 1;
    await admin.replicaof('127.0.0.1', 1); // from here on it is read-only, as a master that was demoted
    return { outcome: 'delivered' };
  }, server.url);
  await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  await vi.waitFor(() => expect(runs).toBe(1), SOON);
  await sleep(500);
  await admin.replicaof('NO', 'ONE');
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), SOON);
  expect({ runs, letGo, failed: await queue.getFailedCount() }).toEqual({ runs: 1, letGo: [], failed: 0 });
});

test('a job that is done but not ours any more is let go, and comes back', async () => {
  let runs = 0;
  const { queue, letGo, lockKey, redis } = open(async (job) => {
    runs += 1;
    if (runs === 1) await redis.del(lockKey(job.id ?? ''));
    return { outcome: 'delivered' };
  });
  await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), SOON);
  expect(runs).toBe(2);
  expect(letGo).toEqual([expect.stringContaining('one: Missing lock for job one')]);
  expect(await queue.getFailedCount()).toBe(0);
});

test('an error that is not the processor’s verdict fails no job', async () => {
  let runs = 0;
  const { queue, letGo } = open(() => {
    runs += 1;
    return runs === 1 ? Promise.reject(new Error('Command timed out')) : Promise.resolve({});
  });
  await queue.add('push', notification(), { jobId: 'one', priority: 10, attempts: 1 });
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), SOON);
  expect(letGo).toEqual(['one: Command timed out']);
});

test('the processor’s verdict holds', async () => {
  const { queue, letGo } = open((job) => {
    if (job.id === 'dead') throw new UnrecoverableError('rejected: for good');
    throw new DelayedError();
  });
  await queue.add('push', notification(), { jobId: 'dead', priority: 10 });
  await vi.waitFor(async () => expect(await queue.getFailedCount()).toBe(1), SOON);
  expect(letGo).toEqual([]);
});

test('a pass that ends does not take the lock’s renewal from a later one of the same job in the same worker', async () => {
  const passes: (() => void)[] = [];
  const { queue, lockKey, redis } = open(async () => {
    await new Promise<void>((resolve) => passes.push(resolve)); // ends when it is told to
    return { outcome: 'delivered' };
  });
  await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  await vi.waitFor(() => expect(passes).toHaveLength(1), SOON);
  // As after a stop (SIGSTOP) that was longer than the lock: the worker finds its own job stalled, and takes it again.
  await redis.del(lockKey('one'));
  await vi.waitFor(() => expect(passes).toHaveLength(2), SOON);
  passes[0]?.();
  await sleep(3_000);
  const begun = passes.length;
  for (const end of passes) end();
  expect(begun).toBe(2);
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), SOON);
});
