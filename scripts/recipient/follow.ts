import type { Config } from '../../src/config/config.ts';
import { leadMs } from '../../src/delivery/slot.ts';
import type { Follow, Moved } from '../../src/limiter/limiter.ts';
import { paceOf } from '../../src/limiter/pace.ts';
import { redelay } from '../../src/queue/redelay.ts';
import { createProgress } from '../support/progress.ts';
import { atQueue, jobIdOfAsk } from './open.ts';

/** The result of an operator's command, and how many waiting notifications it moved to another slot. */
export interface Followed<T> {
  readonly result: T;
  readonly moved: number;
}

/** No slot is moved to earlier than now plus this, so that the queue has the new due time before it comes. */
const LEAD_MS = 1_000;

/**
 * Runs an operator's command, and changes the due times of the recipient's delayed jobs to their new slots. A job that a worker has
 * at that moment asks the limiter anyway.
 *
 * @param waiting about how many wait, for the progress bar
 */
export function followed<T>(
  recipientId: string,
  { redis, queue, policy }: Pick<Config, 'redis' | 'queue' | 'policy'>,
  waiting: number,
  act: (follow: Follow) => Promise<T>,
): Promise<Followed<T>> {
  return atQueue({ redis, queue, recipientId }, async (shard) => {
    const progress = createProgress('moved', waiting);
    const early = leadMs({ toleranceMs: paceOf(policy).holdMs });
    let moved = 0;
    const onMoved = async (part: readonly Moved[]): Promise<void> => {
      await redelay(
        shard,
        part.flatMap((one) => dueOf(one, early)),
      );
      moved += part.length;
      progress.update(moved, Math.max(moved, waiting));
    };
    try {
      return { result: await act({ onMoved, leadMs: LEAD_MS }), moved };
    } finally {
      progress.stop();
    }
  });
}

/** A job's due time is a little before its slot, as when a worker requeues it. */
function dueOf({ id, at }: Moved, earlyMs: number): { jobId: string; at: number }[] {
  const jobId = id === undefined ? undefined : jobIdOfAsk(id);
  return jobId === undefined ? [] : [{ jobId, at: at - earlyMs }];
}
