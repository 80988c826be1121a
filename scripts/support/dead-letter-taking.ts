import type { DeadLetterReason } from '../../src/domain/outcome.ts';
import type { StoredDeadLetter } from '../../src/queue/dead-letter-list.ts';
import type { DeadLetters } from '../../src/queue/dead-letters.ts';
import { takeAll } from '../../src/queue/take.ts';
import type { Desk } from './dead-letter-desk.ts';
import { filterOf, type FilterFlags } from './dead-letter-flags.ts';
import { createProgress } from './progress.ts';

export interface Taking {
  /** The label of the progress bar. */
  readonly label: string;
  /** Takes one; false if it was gone. Absent: they are only counted. */
  readonly take?: (shard: DeadLetters, stored: StoredDeadLetter) => Promise<boolean>;
  readonly pace?: () => Promise<void>;
}

/** Counts of the dead letters that existed when the command began. */
export interface TakenInAll {
  readonly seen: number;
  readonly matched: number;
  readonly taken: number;
  readonly byReason: Readonly<Partial<Record<DeadLetterReason, number>>>;
}

/** Goes through one shard after the other, oldest first in each, with a progress bar on a terminal. */
export async function takeFromAll(desk: Desk, flags: FilterFlags, taking: Taking): Promise<TakenInAll> {
  const { label, take, pace } = taking;
  const filter = filterOf(flags);
  const progress = createProgress(label, await desk.count());
  const byReason: Partial<Record<DeadLetterReason, number>> = {};
  let [shown, seen, matched, taken] = [0, 0, 0, 0];
  try {
    for (const shard of desk.shards) {
      const limit = (flags.limit ?? Infinity) - matched;
      if (limit === 0) break;
      const done = await takeAll(shard, {
        filter,
        buriedUntilMs: desk.now,
        limit,
        ...(take && { take: (stored: StoredDeadLetter) => take(shard, stored) }),
        ...(pace && { pace }),
        onSeen: () => {
          progress.update(++shown);
        },
      });
      seen += done.seen;
      taken += done.taken;
      for (const [reason, count] of done.matched) {
        byReason[reason] = (byReason[reason] ?? 0) + count;
        matched += count;
      }
    }
  } finally {
    progress.stop();
  }
  return { seen, matched, taken, byReason };
}

/** ` (9 rejected, 3 stalled)`, the most frequent first; empty for none. */
export function breakdown(byReason: TakenInAll['byReason']): string {
  const counts = Object.entries(byReason).sort(([, a], [, b]) => b - a);
  return counts.length === 0 ? '' : ` (${counts.map(([reason, count]) => `${count} ${reason}`).join(', ')})`;
}

/** `1 dead letter`, `12 dead letters` */
export function deadLetters(count: number): string {
  return count === 1 ? '1 dead letter' : `${count} dead letters`;
}
