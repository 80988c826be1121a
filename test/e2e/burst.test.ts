import { Queue } from 'bullmq';
import { expect, it, vi } from 'vitest';
import { startProviders } from '../../scripts/support/providers-process.ts';
import { startReplicas } from '../../scripts/support/replicas.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/queue/producer.ts';
import { judge, type Arrival, type Verdict } from '../../src/sandbox/judge.ts';
import { measured, type Measurement } from '../support/measured.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';

const WORKERS = 24;
const BURST = 200;
const POLICY = { rules: [{ max: 20, perMs: 3_500 }], minGapMs: 150 };
const ENVIRONMENT = { LIMIT_RULES: '20/3500ms', LIMIT_MIN_GAP: '150ms', WORKER_CONCURRENCY: '10' };

interface Burst extends Measurement {
  readonly verdict: Verdict;
  readonly delivered: number;
  readonly activations: number;
  readonly exitCodes: readonly (number | null)[];
}

async function runBurst(): Promise<Burst> {
  await using parts = new AsyncDisposableStack();
  const providers = parts.adopt(await startProviders(), (it) => it.close());
  const prefix = testPrefix();
  const connection = connectRedis();
  const queue = parts.adopt(new Queue(QUEUE, { connection, prefix }), (it) => it.close());
  const env = { ...providers.env, ...ENVIRONMENT, REDIS_URL: testRedisUrl(), QUEUE_PREFIX: prefix };
  const replicas = await startReplicas({ count: WORKERS, env });
  parts.defer(async () => {
    await replicas.stop();
  });

  const ids = Array.from({ length: BURST }, (_, index) => `burst-${index}`);
  await createProducer({ connection, prefix }).enqueueMany(
    ids.map((id) => makeNotification({ id, data: { ref: id } })),
  );
  const isDone = async () => expect(await queue.getCompletedCount()).toBe(BURST);
  await vi.waitFor(isDone, { timeout: 90_000, interval: 200 });

  const arrivals = providers.entries
    .filter((entry) => entry.accepted)
    .map(({ token, data, at }): Arrival => ({
      recipientId: 'one',
      notificationId: data['ref'] ?? '',
      device: token,
      at,
    }));
  const verdict = judge(arrivals, POLICY);
  const jobs = await queue.getJobs(['completed']);
  return {
    verdict,
    delivered: new Set(arrivals.map(({ notificationId }) => notificationId)).size,
    activations: jobs.reduce((sum, job) => sum + job.attemptsStarted, 0) / BURST,
    exitCodes: await replicas.stop(),
    stalls: providers.stalls.map(({ ms }) => ms),
    isClean: verdict.gapViolations + verdict.windowViolations === 0,
  };
}

it(`paces a burst of ${BURST} to one recipient over ${WORKERS} worker processes`, async () => {
  const { verdict, delivered, activations, exitCodes } = await measured(runBurst);
  expect(delivered).toBe(BURST);
  expect(verdict).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 0 });
  expect(activations).toBeGreaterThan(1.5); // else hardly anything was blocked, and nothing was shown
  expect(activations).toBeLessThanOrEqual(2.2);
  expect(exitCodes).toEqual(Array(WORKERS).fill(0));
}, 300_000);
