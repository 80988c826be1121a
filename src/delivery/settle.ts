import { DelayedError, UnrecoverableError, type Job } from 'bullmq';
import type { OutcomeName } from '../domain/outcome.ts';
import { requeue } from '../queue/delay.ts';
import type { Lease } from '../queue/lease.ts';
import { insist } from '../queue/insist.ts';
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
  /** Hears of a job that was let go: somebody else has it, or Redis would not note what it came to. */
  readonly onLetGo: (error: unknown) => void;
}

/**
 * Outcome → what happens to the job: completed, delayed, or failed for good (and from there to the dead letters).
 * The two errors are BullMQ's way to be told; neither is a failure of this code. A Redis that refuses for now is asked
 * again as long as the lock lasts. A job that is not ours any more is left alone, and one whose end cannot be noted comes
 * back by its lock: for both, too, BullMQ's word is DelayedError.
 */
export async function settle(hands: Hands, { outcome, progress }: Result): Promise<Settled> {
  const { lease } = hands;
  switch (outcome.kind) {
    case 'delivered':
    case 'expired':
    case 'dropped':
      // Which device failed, and how; for whoever looks, so it is no reason to hold up the end.
      if (progress.attempts.length > 0) await lease.save(progress).catch(() => undefined);
      return { outcome: outcome.kind };
    case 'requeued':
      return putBack(hands, outcome.delayMs, progress);
    case 'held':
    case 'retried':
      return putBack(hands, outcome.waitMs, progress);
    case 'yielded':
      return letGo(hands, new Error('another worker has the job'));
    case 'dead-letter': {
      const { reason, message } = outcome;
      const isNoted = await keep(hands, () => lease.save({ ...progress, dead: { reason, message } }));
      if (!isNoted) return letGo(hands, new Error('another worker has the job'));
      throw new UnrecoverableError(`${reason}: ${message}`);
    }
  }
}

async function putBack(hands: Hands, waitMs: number, progress: Result['progress']): Promise<never> {
  const { job, token, onDelayed } = hands;
  const delayMs = progress.dueAt === undefined ? waitMs : progress.dueAt - Date.now();
  onDelayed(await keep(hands, () => requeue(job, token, delayMs, progress)));
  throw new DelayedError();
}

async function keep<T>(hands: Hands, note: () => Promise<T>): Promise<T> {
  return insist(note, hands.lockMs).catch((error: unknown) => letGo(hands, error));
}

function letGo({ onLetGo }: Hands, error: unknown): never {
  onLetGo(error);
  throw new DelayedError();
}
