import type { Job } from 'bullmq';
import { backendOf } from './bullmq-internals.ts';
import { PRIORITY } from './names.ts';

/**
 * Puts the job that is being processed back for `waitMs` milliseconds, at no attempt, and saves `progress` where it is
 * given. When the job is due it goes ahead of all jobs that no worker has looked at yet. The caller then throws BullMQ's
 * `DelayedError`, and tells the waker the instant that is answered: epoch milliseconds on this machine's clock. (Redis
 * holds it on its own clock, where the job came from a NotificationWorker, which knows the difference.)
 *
 * One script writes priority, progress and delay, so that no failure can come between them; `job.changePriority` would also
 * search the whole list of jobs without a priority, on every requeue. Rejects where the lock was lost (it ran out, or the
 * job was removed), and then nothing is written.
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
