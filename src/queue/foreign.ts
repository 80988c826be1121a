import type { Job, JobsOptions } from 'bullmq';
import { KEEP_COMPLETED } from './retention.ts';

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
