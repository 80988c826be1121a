import type { Job } from 'bullmq';
import { backendOf } from './bullmq-internals.ts';
import { PRIORITY } from './names.ts';

/**
 * Puts the job that is being processed back for `waitMs`, to go ahead of all that has not been looked at yet when it
 * is due; costs no attempt. With `progress`, that is saved with it. The caller then throws BullMQ's `DelayedError`, and
 * tells the waker the instant answered (epoch milliseconds on this machine's clock; in Redis it is written on Redis's
 * clock, where the job came from a NotificationWorker that knows the difference).
 *
 * One script writes priority, progress and delay, so nothing can fail between them; `job.changePriority` would also
 * search the whole list of jobs without a priority, on every requeue. Rejects where the job is no longer ours (its
 * lock ran out, it was removed): whoever has it now decides.
 */
export async function requeue(
  job: Pick<Job, 'id'>,
  token: string,
  waitMs: number,
  progress?: object,
  now: number = Date.now(),
): Promise<number> {
  const delayMs = Math.max(0, Math.ceil(waitMs));
  await backendOf(job).moveToDelayed(job.id ?? '', now, delayMs, token, {
    skipAttempt: true,
    fieldsToUpdate: { priority: PRIORITY.due, ...(progress && { progress: JSON.stringify(progress) }) },
  });
  return now + delayMs;
}
