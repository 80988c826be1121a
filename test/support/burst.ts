import { Queue } from 'bullmq';
import { expect, vi } from 'vitest';
import { startProviders } from '../../scripts/support/providers-process.ts';
import { startReplicas } from '../../scripts/support/replicas.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/queue/producer.ts';
import { judge, type Arrival, type Verdict } from '../../src/sandbox/judge.ts';
import { measured, type Measurement } from './measured.ts';
import { makeNotification } from './push.ts';
import { connectRedis, testPrefix, testRedisUrl } from './redis.ts';

interface BurstOptions {
  /** Worker processes. */
  readonly workers: number;
  /** Notifications to one recipient, enqueued at once. */
  readonly count: number;
  readonly policy: Policy;
}

interface Burst extends Measurement {
  readonly verdict: Verdict;
  readonly delivered: number;
  readonly activations: number;
  readonly exitCodes: readonly (number | null)[];
}

/** A burst to one recipient is delivered by worker processes, and judged by what arrived at the providers, and when. */
export async function expectPaced(options: BurstOptions): Promise<void> {
  const { verdict, delivered, activations, exitCodes } = await measured(() => runBurst(options));
  expect(delivered).toBe(options.count);
  expect(verdict).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 0 });
  expect(activations).toBeGreaterThan(1.5); // else hardly anything was blocked, and nothing was shown
  // Two passes each, and one more for each wake-up that is later than the tolerance: so many processes on few cores have some.
  // The exact numbers are in test/limiter/reach.test.ts. Without slots it would be half the number of jobs.
  expect(activations).toBeLessThanOrEqual(4);
  expect(exitCodes).toEqual(Array(options.workers).fill(0));
}

async function runBurst({ workers, count, policy }: BurstOptions): Promise<Burst> {
  await using parts = new AsyncDisposableStack();
  const providers = parts.adopt(await startProviders(), (it) => it.close());
  const prefix = testPrefix();
  const connection = connectRedis();
  const queue = parts.adopt(new Queue(QUEUE, { connection, prefix }), (it) => it.close());
  const limits = {
    LIMIT_RULES: policy.rules.map(({ max, perMs }) => `${max}/${perMs}ms`).join(),
    LIMIT_MIN_GAP: `${policy.minGapMs}ms`,
    WORKER_CONCURRENCY: '10',
  };
  const env = { ...providers.env, ...limits, REDIS_URL: testRedisUrl(), QUEUE_PREFIX: prefix };
  const replicas = await startReplicas({ count: workers, env });
  parts.defer(async () => {
    await replicas.stop();
  });

  const ids = Array.from({ length: count }, (_, index) => `burst-${index}`);
  await createProducer({ connection, prefix }).enqueueMany(
    ids.map((id) => makeNotification({ id, data: { ref: id } })),
  );
  const isDone = async () => expect(await queue.getCompletedCount()).toBe(count);
  await vi.waitFor(isDone, { timeout: 90_000, interval: 200 });

  const arrivals = providers.entries
    .filter((entry) => entry.accepted)
    .map(({ token, data, at }): Arrival => ({
      recipientId: 'one',
      notificationId: data['ref'] ?? '',
      device: token,
      at,
    }));
  const verdict = judge(arrivals, policy);
  const jobs = await queue.getJobs(['completed']);
  return {
    verdict,
    delivered: new Set(arrivals.map(({ notificationId }) => notificationId)).size,
    activations: jobs.reduce((sum, job) => sum + job.attemptsStarted, 0) / count,
    exitCodes: await replicas.stop(),
    stalls: providers.stalls.map(({ ms }) => ms),
    isClean: verdict.gapViolations + verdict.windowViolations === 0,
  };
}
