import type { WorkerOptions } from 'bullmq';
import type { Connection } from './connection.ts';
import { KEEP_ALL, KEEP_COMPLETED } from './retention.ts';

export interface WorkerSettings {
  readonly connection: Connection;
  readonly prefix: string;
  readonly concurrency: number;
  /** How long a job lock lasts without renewal. If Redis is away for longer than this, the jobs in flight run twice. */
  readonly lockMs: number;
  /** How often a job may stall, that is lose its lock with its worker. After that the job itself is taken for the cause. */
  readonly maxStalls: number;
}

/** Stalled jobs are looked for at least this often. They come back after their lock's end and one or two of these. */
const MAX_STALLED_INTERVAL_MS = 5_000;

/** BullMQ's settings for a worker. `maxStartedAttempts` stays unset, because every requeue counts as a start. */
export function workerOptions(settings: WorkerSettings): WorkerOptions {
  return {
    connection: settings.connection,
    prefix: settings.prefix,
    concurrency: settings.concurrency,
    autorun: false,
    lockDuration: settings.lockMs,
    stalledInterval: Math.min(MAX_STALLED_INTERVAL_MS, Math.ceil(settings.lockMs / 2)),
    // Counted over the whole life of a job; while it waits for its slot, workers may be restarted several times.
    maxStalledCount: settings.maxStalls,
    // If the worker that waits for the next due job is killed, the others notice after this many seconds.
    drainDelay: 1,
    // After an outage of Redis try again soon; BullMQ's default is 15 s.
    runRetryDelay: 1_000,
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: KEEP_ALL,
  };
}
