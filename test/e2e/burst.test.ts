import { Queue } from 'bullmq';
import { expect, it, onTestFinished, vi } from 'vitest';
import { startProviders } from '../../scripts/support/providers-process.ts';
import { startReplicas } from '../../scripts/support/replicas.ts';
import { createProducer } from '../../src/queue/producer.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { judge, type Arrival } from '../../src/sandbox/judge.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';

const WORKERS = 24;
const BURST = 200;
const POLICY = { rules: [{ max: 20, perMs: 3_500 }], minGapMs: 150 };

it(`paces a burst of ${BURST} to one recipient over ${WORKERS} worker processes`, async () => {
  const providers = await startProviders();
  onTestFinished(() => providers.close());
  const prefix = testPrefix();
  const connection = connectRedis();
  const queue = new Queue(QUEUE, { connection, prefix });
  onTestFinished(() => queue.close());
  const env = {
    ...providers.env,
    REDIS_URL: testRedisUrl(),
    QUEUE_PREFIX: prefix,
    LIMIT_RULES: '20/3500ms',
    LIMIT_MIN_GAP: '150ms',
    WORKER_CONCURRENCY: '10',
    LOG_LEVEL: 'info',
  };
  const replicas = await startReplicas({ count: WORKERS, env });
  onTestFinished(async () => expect(await replicas.stop()).toEqual(Array(WORKERS).fill(0)));

  const notifications = Array.from({ length: BURST }, (_, index) =>
    makeNotification({ id: `burst-${index}`, data: { ref: `burst-${index}` } }),
  );
  const added = await createProducer({ connection, prefix }).enqueueMany(notifications);
  expect(added.every(({ kind }) => kind === 'added')).toBe(true);
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(BURST), { timeout: 90_000, interval: 200 });

  const arrivals = providers.entries
    .filter((entry) => entry.accepted)
    .map(({ token, data, at }): Arrival => ({
      recipientId: 'one',
      notificationId: data['ref'] ?? '',
      device: token,
      at,
    }));
  expect(new Set(arrivals.map(({ notificationId }) => notificationId)).size).toBe(BURST);
  expect(judge(arrivals, POLICY)).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 0 });

  const jobs = await queue.getJobs(['completed']);
  const activations = jobs.reduce((sum, job) => sum + job.attemptsStarted, 0);
  expect(activations).toBeGreaterThan(BURST); // else nothing was blocked, and nothing was shown
  expect(activations / BURST).toBeLessThanOrEqual(2.2);
}, 150_000);
