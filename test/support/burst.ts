import { Queue } from 'bullmq';
import { expect, vi } from 'vitest';
import { startProviders } from '../../demo/providers-process.ts';
import { startReplicas } from '../../demo/replicas.ts';
import type { Policy } from '../../src/domain/limits.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { judge, type Arrival, type Verdict } from '../../sandbox/judge.ts';
import { makeNotification } from './push.ts';
import { connectRedis, redisEnv, testPrefix } from './redis.ts';

export interface BurstOptions {
  /** Worker processes. */
  readonly workers: number;
  /** Notifications to one recipient, enqueued at once. */
  readonly count: number;
  /** By which the arrivals are judged. */
  readonly policy: Policy;
  /** That the workers keep, if it is another one. */
  readonly kept?: Policy;
  /** Called when all are enqueued. */
  readonly meddle?: (queue: Queue) => Promise<unknown>;
}

export interface Burst {
  readonly verdict: Verdict;
  /** The ids of those that arrived. */
  readonly delivered: ReadonlySet<string>;
  readonly activations: number;
  readonly exitCodes: readonly (number | null)[];
}

/** A burst to one recipient is delivered by worker processes, and judged by what arrived at the providers, and when. */
export async function expectPaced(options: BurstOptions): Promise<void> {
  const { verdict, delivered, activations, exitCodes } = await runBurst(options);
  expect(delivered.size).toBe(options.count);
  expect(verdict).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 0 });
  expect(activations).toBeGreaterThan(1.5); // else hardly anything was blocked, and nothing was shown
  // Two passes each, and one more for each wake-up that is later than the tolerance: so many processes on few cores have some.
  // The exact numbers are in test/limiter/chain.test.ts. Without slots it would be half the number of jobs.
  expect(activations).toBeLessThanOrEqual(4);
  expect(exitCodes).toEqual(Array(options.workers).fill(0));
}

/** Notifications `burst-0`, `burst-1`, … to one recipient; resolves when no job is left. */
export async function runBurst({ workers, count, policy, kept = policy, meddle }: BurstOptions): Promise<Burst> {
  await using parts = new AsyncDisposableStack();
  const providers = parts.adopt(await startProviders(), (it) => it.close());
  const prefix = testPrefix();
  const connection = connectRedis();
  const queue = parts.adopt(new Queue(QUEUE, { connection, prefix }), (it) => it.close());
  const limits = {
    LIMIT_RULES: kept.rules.map(({ max, perMs }) => `${max}/${perMs}ms`).join(),
    LIMIT_MIN_GAP: `${kept.minGapMs}ms`,
    WORKER_CONCURRENCY: '10',
  };
  const env = { ...providers.env, ...limits, ...redisEnv(), QUEUE_PREFIX: prefix };
  const replicas = await startReplicas({ count: workers, env });
  parts.defer(async () => {
    await replicas.stop();
  });

  const ids = Array.from({ length: count }, (_, index) => `burst-${index}`);
  await createProducer({ connection, prefix }).enqueueMany(
    ids.map((id) => makeNotification({ id, data: { ref: id } })),
  );
  await meddle?.(queue);
  const isDone = async () => expect(await queue.getJobCountByTypes('prioritized', 'delayed', 'active', 'wait')).toBe(0);
  await vi.waitFor(isDone, { timeout: 90_000, interval: 200 });

  const arrivals = replicas.delays
    .counted(providers.entries, ({ data }) => data['ref'] ?? '')
    .filter((entry) => entry.accepted)
    .map(({ token, data, at, delayMs }): Arrival => ({
      recipientId: 'one',
      notificationId: data['ref'] ?? '',
      device: token,
      at,
      delayMs,
    }));
  const verdict = judge(arrivals, policy);
  const jobs = await queue.getJobs(['completed']);
  return {
    verdict,
    delivered: new Set(arrivals.map(({ notificationId }) => notificationId)),
    activations: jobs.reduce((sum, job) => sum + job.attemptsStarted, 0) / count,
    exitCodes: await replicas.stop(),
  };
}
