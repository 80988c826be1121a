import { DelayedError, UnrecoverableError, type Job } from 'bullmq';
import type { OutcomeName } from '../domain/outcome.ts';
import { requeue } from '../queue/delay.ts';
import type { Lease } from '../queue/lease.ts';
import { insist } from '../redis/not-now.ts';
import type { Result } from './deliver.ts';

/** What a completed job answers; kept with it as BullMQ's return value. */
export interface Settled {
  readonly outcome: Exclude<OutcomeName, 'dead-lettered'>;
}

/** A job in a worker's hands. */
export interface Hands {
  readonly job: Job;
  readonly token: string;
  readonly lease: Lease;
  readonly lockMs: number;
  /** Hears when a job that was put back is due: epoch milliseconds. */
  readonly onDelayed: (dueAt: number) => void;
}

/**
 * Outcome → what happens to the job: completed, delayed, or failed for good (and from there to the dead letters).
 * The two errors are BullMQ's way to be told; neither is a failure of this code. A Redis that refuses for now is asked
 * again as long as the lock lasts. A job that is not ours any more is left alone, and one whose end cannot be noted comes
 * back by its lock: for both, too, BullMQ's word is DelayedError.
 *
 * @param onLetGo hears of a job that was let go: somebody else has it, or Redis would not note what it came to
 */
export async function settle(
  hands: Hands,
  { outcome, progress }: Result,
  onLetGo: (error: unknown) => void,
): Promise<Settled> {
  const { lease } = hands;
  const letGo = (error: unknown): never => {
    onLetGo(error);
    throw new DelayedError();
  };
  const keep = <T>(note: () => Promise<T>): Promise<T> => insist(note, hands.lockMs).catch(letGo);
  const putBack = async (waitMs: number): Promise<never> => {
    const delayMs = progress.dueAt === undefined ? waitMs : progress.dueAt - Date.now();
    hands.onDelayed(await keep(() => requeue(hands.job, hands.token, delayMs, progress)));
    throw new DelayedError();
  };
  switch (outcome.kind) {
    case 'delivered':
    case 'expired':
    case 'dropped':
      // Which device failed, and how; for whoever looks, so it is no reason to hold up the end.
      if (progress.attempts.length > 0) await lease.save(progress).catch(() => undefined);
      return { outcome: outcome.kind };
    case 'requeued':
      return putBack(outcome.delayMs);
    case 'held':
    case 'retried':
      return putBack(outcome.waitMs);
    case 'yielded':
      return letGo(new Error('another worker has the job'));
    case 'dead-letter': {
      const { reason, message } = outcome;
      const isNoted = await keep(() => lease.save({ ...progress, dead: { reason, message } }));
      if (!isNoted) return letGo(new Error('another worker has the job'));
      throw new UnrecoverableError(`${reason}: ${message}`);
    }
  }
}
