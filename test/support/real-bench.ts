import type { Job } from 'bullmq';
import { expect, onTestFinished, vi } from 'vitest';
import { startProviders, type ProvidersProcess } from '../../scripts/support/providers-process.ts';
import type { Notification } from '../../src/domain/notification.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import type { Latency } from '../../src/sandbox/loopback/timing.ts';
import { openWorkerQueues, type WorkerQueues } from './worker.ts';

/** Worker processes at providers that are as slow as real ones, seen from outside: by a plain BullMQ producer and by what arrives. */
export interface RealBench extends WorkerQueues {
  readonly providers: ProvidersProcess;
  enqueue(notifications: readonly Notification[]): Promise<void>;
  /** Resolves when so many jobs are completed. */
  completed(count: number, withinMs?: number): Promise<void>;
  /** How long the machine stood still, each time that it did: milliseconds. */
  stallsMs(): readonly number[];
  /** What devices got, in the order of arrival. */
  accepted(): JournalEntry[];
}

export async function openRealBench({ latency }: { readonly latency?: Latency } = {}): Promise<RealBench> {
  const providers = await startProviders(latency === undefined ? {} : { latency });
  onTestFinished(() => providers.close());
  const queues = openWorkerQueues(providers.env);
  const { queue } = queues;
  return {
    ...queues,
    providers,
    enqueue: async (notifications) => {
      const jobs = notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } }));
      await queue.addBulk(jobs);
    },
    completed: (count, withinMs = 60_000) =>
      vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(count), {
        timeout: withinMs,
        interval: 50,
      }),
    stallsMs: () => providers.stalls.map(({ ms }) => ms),
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
