import type { Config } from '../../src/config/config.ts';
import { leadMs } from '../../src/delivery/slot.ts';
import type { Follow, Moved } from '../../src/limiter/limiter.ts';
import { paceOf } from '../../src/limiter/pace.ts';
import { redelay } from '../../src/queue/redelay.ts';
import { createProgress } from '../support/progress.ts';
import { atQueue, jobIdOfAsk } from './open.ts';

/** What came of an operator's act, and how many notifications that wait it gave another slot. */
export interface Followed<T> {
  readonly result: T;
  readonly moved: number;
}

/** Nobody is moved to earlier than this from now: by then the queue has the new instant, and a worker waits for it. */
const LEAD_MS = 1_000;

/**
 * Has the recipient's delayed jobs follow the slots that an operator's act moves: each comes back at its new one, and not at the
 * one that it was told. One that a worker has at that moment asks the limiter anyway.
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

/** As a worker puts a job back: a little before its slot. */
function dueOf({ id, at }: Moved, earlyMs: number): { jobId: string; at: number }[] {
  const jobId = id === undefined ? undefined : jobIdOfAsk(id);
  return jobId === undefined ? [] : [{ jobId, at: at - earlyMs }];
}
