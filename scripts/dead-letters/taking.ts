import type { DeadLetterReason } from '../../src/domain/outcome.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/list.ts';
import type { DeadLetters } from '../../src/dead-letters/store.ts';
import { takeAll } from '../../src/dead-letters/take.ts';
import type { Desk } from './desk.ts';
import { filterOf, type FilterFlags } from './flags.ts';
import { createProgress } from '../support/progress.ts';

export interface Taking {
  /** Over the progress bar. */
  readonly label: string;
  /** Takes one, or finds it gone (false). Absent: they are only counted. */
  readonly take?: (shard: DeadLetters, stored: StoredDeadLetter) => Promise<boolean>;
  readonly pace?: () => Promise<void>;
}

/** Dead letters that were there when the command began. */
export interface TakenInAll {
  readonly seen: number;
  readonly matched: number;
  readonly taken: number;
  readonly byReason: Readonly<Partial<Record<DeadLetterReason, number>>>;
}

/** Shard after shard, oldest first in each; a bar on a terminal tells how far it is. */
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
