import type { Job, JobsOptions, KeepJobs } from 'bullmq';

/** How long an id stays taken once its notification is done with: enqueuing it again meanwhile is one notification. */
export const ID_KEPT_S = 3600;

/** A bound on memory beside the hour: about 1 kB a job. */
export const KEEP_COMPLETED = { age: ID_KEPT_S, count: 50_000 } as const satisfies KeepJobs;

/** BullMQ's way of saying all of them: a failed job stays until it has become a dead letter. */
export const KEEP_ALL = { count: -1 } as const satisfies KeepJobs;

/** True for a job added without a priority: BullMQ puts those before every other one, the due ones too. */
export function isUnprioritised(job: Pick<Job, 'opts'>): boolean {
  return (job.opts.priority ?? 0) === 0;
}

/**
 * Makes a job outlive its end, whatever its producer asked for: with `removeOnFail: true` there would be no dead
 * letter, with `removeOnComplete: true` the same id could alert twice. Call it on the worker's `active` event, which
 * comes before the processor, and also before BullMQ fails a job that stalled too often without asking the processor.
 */
export function protect(job: Pick<Job, 'opts'>): void {
  job.opts.removeOnFail = false;
  if (keepsNone(job.opts.removeOnComplete)) job.opts.removeOnComplete = KEEP_COMPLETED;
}

function keepsNone(keep: JobsOptions['removeOnComplete']): boolean {
  return keep === true || keep === 0 || (typeof keep === 'object' && keep.count === 0);
}
