import { expect, onTestFinished, vi } from 'vitest';
import { WorkerDelays } from '../../demo/delays.ts';
import { startProviders, type ProvidersProcess } from '../../demo/providers-process.ts';
import type { Notification } from '../../src/notification/notification.ts';
import type { SeenEntry } from '../../demo/providers-child.ts';
import { DELAYS, latenessOf, readPage, type Lateness } from '../../demo/replicas.ts';
import type { Latency } from '../../sandbox/loopback/timing.ts';
import { openWorkerQueues, type TestWorker, type WorkerQueues } from './worker.ts';

/** Worker processes at providers that are as slow as real ones, seen from outside: by a plain BullMQ producer and by what arrives. */
export interface RealBench extends WorkerQueues {
  readonly providers: ProvidersProcess;
  enqueue(notifications: readonly Notification[]): Promise<void>;
  /** Resolves when so many jobs are completed. */
  completed(count: number, withinMs?: number): Promise<void>;
  /** What devices got, in the order of arrival, with its delays as the processes measured them. */
  accepted(): SeenEntry[];
  /** How late the workers' wake-ups were, and how often a worker could not run for longer than a send may be late. */
  lateness(): Promise<Lateness & { readonly standstills: number }>;
}

export async function openRealBench({ latency }: { readonly latency?: Latency } = {}): Promise<RealBench> {
  const providers = await startProviders(latency === undefined ? {} : { latency });
  onTestFinished(() => providers.close());
  const queues = openWorkerQueues(providers.env);
  const { queue } = queues;
  const workers: TestWorker[] = [];
  let startedAt = Infinity;
  const delays = (): WorkerDelays => delaysOf(workers);
  return {
    ...queues,
    providers,
    startWorker: async (env, nodeFlags = [], program) => {
      const worker = await queues.startWorker(env, ['--import', DELAYS, ...nodeFlags], program);
      workers.push(worker);
      return worker;
    },
    enqueue: async (notifications) => {
      startedAt = Math.min(startedAt, Date.now());
      const jobs = notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } }));
      await queue.addBulk(jobs);
    },
    completed: (count, withinMs = 60_000) =>
      vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(count), {
        timeout: withinMs,
        interval: 50,
      }),
    accepted: () => {
      const entries = providers.entries.filter((entry) => entry.accepted).toSorted((a, b) => a.at - b.at);
      return delays().counted(entries, ({ data }) => data['ref'] ?? '');
    },
    lateness: async () => ({
      ...latenessOf(await Promise.all(workers.map(({ url }) => readPage(url)))),
      standstills: delays()
        .standstillsMs(startedAt)
        .filter((ms) => ms > 40).length,
    }),
  };
}

/** What the logs of workers that were started with `DELAYS` say so far. */
export function delaysOf(workers: readonly Pick<TestWorker, 'stdout'>[]): WorkerDelays {
  const delays = new WorkerDelays();
  for (const [index, worker] of workers.entries())
    for (const line of worker.stdout().split('\n')) delays.note(String(index), line);
  return delays;
}

/** By how many that were enqueued later each one was overtaken; `titles` in the order of arrival, numbers from 0. */
export function overtakings(titles: readonly number[]): number[] {
  return titles.map((title, index) => titles.slice(0, index).filter((other) => other > title).length);
}
