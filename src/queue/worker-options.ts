import type { WorkerOptions } from 'bullmq';
import type { Connection } from '../redis/connection.ts';
import { KEEP_ALL, KEEP_COMPLETED } from './retention.ts';

export interface WorkerSettings {
  readonly connection: Connection;
  readonly prefix: string;
  readonly concurrency: number;
  /** How long a silent worker keeps its jobs. An outage of Redis longer than this runs the jobs in flight twice. */
  readonly lockMs: number;
  /** How often a job may come back from a worker that went silent: beyond it, it is held to be what ended them. */
  readonly maxStalls: number;
}

/** How often the jobs of dead workers are looked for, at least. They come back after the lock and one or two of these. */
const MAX_STALLED_INTERVAL_MS = 5_000;

/** BullMQ's settings for a consumer of `notifications`. `maxStartedAttempts` stays unset: every requeue is a start. */
export function workerOptions(settings: WorkerSettings): WorkerOptions {
  return {
    connection: settings.connection,
    prefix: settings.prefix,
    concurrency: settings.concurrency,
    autorun: false,
    lockDuration: settings.lockMs,
    stalledInterval: Math.min(MAX_STALLED_INTERVAL_MS, Math.ceil(settings.lockMs / 2)),
    // Counted over the whole life of a job, which may meet several restarts of workers before its slot comes.
    maxStalledCount: settings.maxStalls,
    // The worker that blocks for the next due job may be killed; the others look after this many seconds.
    drainDelay: 1,
    // Redis may come back before the worker's next try; BullMQ waits 15 s otherwise.
    runRetryDelay: 1_000,
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: KEEP_ALL,
  };
}
