import type { Job, JobsOptions, KeepJobs } from 'bullmq';

/** How long an id stays taken after its notification has ended: enqueuing it again within this time adds nothing. */
export const ID_KEPT_S = 3600;

/** The count bounds the memory: 1.7 kB a job that was delivered (docs/capacity.md). */
export const KEEP_COMPLETED = { age: ID_KEPT_S, count: 50_000 } as const satisfies KeepJobs;

/** -1 keeps all: a failed job must stay until it has become a dead letter. */
export const KEEP_ALL = { count: -1 } as const satisfies KeepJobs;

/** True for a job that was added without a priority: BullMQ takes such jobs before all others, even before due ones. */
export function isUnprioritised(job: Pick<Job, 'opts'>): boolean {
  return (job.opts.priority ?? 0) === 0;
}

/**
 * Keeps a job in Redis after its end, even if its producer asked for removal: with `removeOnFail: true` there would be no dead
 * letter, and with `removeOnComplete: true` the same id could alert twice. Call it on the worker's `active` event: that comes
 * before the processor runs, and also before BullMQ itself fails a job that stalled too often.
 */
export function protect(job: Pick<Job, 'opts'>): void {
  job.opts.removeOnFail = false;
  if (keepsNone(job.opts.removeOnComplete)) job.opts.removeOnComplete = KEEP_COMPLETED;
}

function keepsNone(keep: JobsOptions['removeOnComplete']): boolean {
  return keep === true || keep === 0 || (typeof keep === 'object' && keep.count === 0);
}
