import type { Config } from '../../src/config/config.ts';
import { duesOf, MOVE_LEAD_MS } from '../../src/delivery/slot.ts';
import type { Follow, Moved } from '../../src/limiter/limiter.ts';
import { paceOf } from '../../src/limiter/pace.ts';
import { redelay } from '../../src/queue/job-lock.ts';
import { createProgress } from '../support/progress.ts';
import { atQueue } from './open.ts';

/** The result of an operator's command, and how many waiting notifications it moved to another slot. */
export interface Followed<T> {
  readonly result: T;
  readonly moved: number;
}

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
    let moved = 0;
    const onMoved = async (part: readonly Moved[]): Promise<void> => {
      await redelay(shard, duesOf(part, paceOf(policy).toleranceMs));
      moved += part.length;
      progress.update(moved, Math.max(moved, waiting));
    };
    try {
      return { result: await act({ onMoved, leadMs: MOVE_LEAD_MS }), moved };
    } finally {
      progress.stop();
    }
  });
}
