import { Queue, type Job } from 'bullmq';
import { expect, onTestFinished, vi } from 'vitest';
import { startProviders, type ProvidersProcess } from '../../scripts/support/providers-process.ts';
import type { Notification } from '../../src/domain/notification.ts';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import type { Latency } from '../../src/sandbox/latency.ts';
import { startProcess, type TestProcess } from './process.ts';
import { connectRedis, testPrefix, testRedisUrl } from './redis.ts';

/** Worker processes at providers that are as slow as real ones, seen from outside: by a plain BullMQ producer and by what arrives. */
export interface RealBench {
  readonly providers: ProvidersProcess;
  readonly queue: Queue;
  readonly deadQueue: Queue;
  /** Starts one more worker and resolves when it consumes. */
  startWorker(env?: Readonly<Record<string, string>>): Promise<TestProcess & { readonly url: string }>;
  enqueue(notifications: readonly Notification[]): Promise<void>;
  /** Resolves when so many jobs are completed. */
  completed(count: number, withinMs?: number): Promise<void>;
  /** What devices got, in the order of arrival. */
  accepted(): JournalEntry[];
}

export async function openRealBench({ latency }: { readonly latency?: Latency } = {}): Promise<RealBench> {
  const providers = await startProviders(latency === undefined ? {} : { latency });
  onTestFinished(() => providers.close());
  const prefix = testPrefix();
  const connection = connectRedis();
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  onTestFinished(async () => {
    await Promise.all([queue.close(), deadQueue.close()]);
  });
  const env = { ...providers.env, REDIS_URL: testRedisUrl(), QUEUE_PREFIX: prefix, METRICS_PORT: '0' };
  return {
    providers,
    queue,
    deadQueue,
    startWorker: async (more = {}) => {
      const worker = startProcess({ args: ['workers/notifications.ts'], env: { ...env, ...more } });
      const line = JSON.parse(await worker.waitForLine(/"msg":"ready"/)) as { metrics: string };
      return { ...worker, url: line.metrics };
    },
    enqueue: async (notifications) => {
      const jobs = notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } }));
      await queue.addBulk(jobs);
    },
    completed: (count, withinMs = 60_000) =>
      vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(count), {
        timeout: withinMs,
        interval: 50,
      }),
    accepted: () => providers.entries.filter((entry) => entry.accepted).toSorted((a, b) => a.at - b.at),
  };
}

/** How often each job was taken up by a worker, on average. */
export function passesPerJob(jobs: readonly Job[]): number {
  return jobs.reduce((sum, job) => sum + job.attemptsStarted, 0) / jobs.length;
}

/** By how many that were enqueued later each one was overtaken; `titles` in the order of arrival, numbers from 0. */
export function overtakings(titles: readonly number[]): number[] {
  return titles.map((title, index) => titles.slice(0, index).filter((other) => other > title).length);
}
