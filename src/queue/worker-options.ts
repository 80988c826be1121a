import type { WorkerOptions } from 'bullmq';
import type { Connection } from './connection.ts';
import { KEEP_ALL, KEEP_COMPLETED } from './retention.ts';

export interface WorkerSettings {
  readonly connection: Connection;
  readonly prefix: string;
  readonly concurrency: number;
  /** How long a silent worker keeps its jobs; 30 s. An outage of Redis longer than this runs the jobs in flight twice. */
  readonly lockDurationMs?: number;
  /** How often the jobs of dead workers are looked for; 5 s. They come back after the lock and one or two of these. */
  readonly stalledIntervalMs?: number;
}

/** BullMQ's settings for a consumer of `notifications`. `maxStartedAttempts` stays unset: every requeue is a start. */
export function workerOptions(settings: WorkerSettings): WorkerOptions {
  return {
    connection: settings.connection,
    prefix: settings.prefix,
    concurrency: settings.concurrency,
    autorun: false,
    lockDuration: settings.lockDurationMs ?? 30_000,
    stalledInterval: settings.stalledIntervalMs ?? 5_000,
    // Counted over the whole life of a job, which may meet several restarts of workers before its slot comes.
    maxStalledCount: 10,
    // The worker that blocks for the next due job may be killed; the others look after this many seconds.
    drainDelay: 1,
    // Redis may come back before the worker's next try; BullMQ waits 15 s otherwise.
    runRetryDelay: 1_000,
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: KEEP_ALL,
  };
}
