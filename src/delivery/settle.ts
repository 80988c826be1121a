import { DelayedError, UnrecoverableError, type Job } from 'bullmq';
import type { OutcomeName } from '../domain/outcome.ts';
import { requeue } from '../queue/delay.ts';
import type { Concluded } from './conclude.ts';

/** What a completed job answers; kept with it as BullMQ's return value. */
export interface Settled {
  readonly outcome: Exclude<OutcomeName, 'dead-lettered'>;
}

/**
 * Outcome → what happens to the job: completed, delayed, or failed for good (and from there to the dead letters).
 * The two errors are BullMQ's way to be told; neither is a failure of this code. `onDelayed` hears when the job is due.
 */
export async function settle(
  job: Job,
  token: string,
  { outcome, progress }: Concluded,
  onDelayed: (dueAt: number) => void,
): Promise<Settled> {
  switch (outcome.kind) {
    case 'delivered':
    case 'expired':
    case 'dropped':
      if (progress.attempts.length > 0) await job.updateProgress(progress); // which device failed, and how
      return { outcome: outcome.kind };
    case 'requeued':
      onDelayed(await requeue(job, token, outcome.delayMs, progress));
      throw new DelayedError();
    case 'held':
    case 'retried':
      onDelayed(await requeue(job, token, outcome.waitMs, progress));
      throw new DelayedError();
    case 'dead-letter': {
      const { reason, message } = outcome;
      await job.updateProgress({ ...progress, dead: { reason, message } });
      throw new UnrecoverableError(`${reason}: ${message}`);
    }
  }
}
