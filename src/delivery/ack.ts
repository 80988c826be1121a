import { DelayedError, UnrecoverableError } from 'bullmq';
import type { OutcomeName } from '../domain/outcome.ts';
import { insist } from '../redis/not-now.ts';
import { ANOTHER_HAS_IT, type JobLock } from '../queue/job-lock.ts';
import type { Context } from './context.ts';
import type { Result } from './decide.ts';
import { withDeadLetter, type Progress } from './progress.ts';

/** How a job was completed: the beginning of its return value (ended.ts). */
export interface Completed {
  readonly outcome: Exclude<OutcomeName, 'dead-lettered'>;
  /** Of `superseded` and `merged`: the id of the notification that goes in its place. */
  readonly by?: string;
}

type Job = Pick<Context, 'lock' | 'progress'>;

/**
 * Tells BullMQ the result of a pass: the job is completed, put back, or failed for good (and from there it goes to the dead
 * letters). BullMQ wants two of these as errors: DelayedError for a job that it is to leave as it is, UnrecoverableError
 * for one that failed. Where Redis refuses for now, it is asked again as long as the lock lasts.
 *
 * @param onNotAcked called where Redis did not take the result: the job comes back when its lock has run out
 */
export async function ack(
  { lock, progress }: Job,
  result: Result,
  onNotAcked: (error: unknown) => void,
): Promise<Completed> {
  switch (result.kind) {
    case 'delivered':
    case 'expired':
    case 'dropped':
    case 'canceled':
    case 'superseded':
    case 'merged':
      // Which device failed, and how. It is only to be looked at, so the end of the job does not wait for it.
      if (progress.attempts.length > 0) await lock.save(progress).catch(() => undefined);
      return { outcome: result.kind, ...('by' in result && { by: result.by }) };
    case 'requeued':
      return putBack(lock, progress, result.delayMs, onNotAcked);
    case 'held':
    case 'retried':
      return putBack(lock, progress, result.waitMs, onNotAcked);
    case 'yielded':
      throw new DelayedError();
    case 'dead-letter': {
      const { reason, message } = result;
      const letter = withDeadLetter(progress, reason, message);
      const isSaved = await write(lock, onNotAcked, () => lock.save(letter));
      if (isSaved) throw new UnrecoverableError(`${reason}: ${message}`);
      onNotAcked(new Error(ANOTHER_HAS_IT));
      throw new DelayedError();
    }
  }
}

async function putBack(
  lock: JobLock,
  progress: Progress,
  waitMs: number,
  onNotAcked: (error: unknown) => void,
): Promise<never> {
  const delayMs = progress.dueAt === undefined ? waitMs : progress.dueAt - Date.now();
  await write(lock, onNotAcked, () => lock.putBack(delayMs, progress));
  throw new DelayedError();
}

async function write<T>(lock: JobLock, onNotAcked: (error: unknown) => void, work: () => Promise<T>): Promise<T> {
  try {
    return await insist(work, lock.lockMs);
  } catch (error) {
    onNotAcked(error);
    throw new DelayedError();
  }
}
