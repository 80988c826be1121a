import type { Job, JobsOptions } from 'bullmq';
import { KEEP_COMPLETED } from './retention.ts';

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
