import { setTimeout as sleep } from 'node:timers/promises';
import type { StoredDeadLetter } from '../../src/dead-letters/list.ts';
import type { DeadLetters } from '../../src/dead-letters/store.ts';
import { takeAll } from '../../src/dead-letters/take.ts';
import type { DeadLetterReason } from '../../src/domain/outcome.ts';
import { createProgress } from '../support/progress.ts';
import type { Desk } from './desk.ts';
import { filterOf, type FilterFlags } from './flags.ts';

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

/** Lets one caller after the other go on, evenly spaced, `perSecond` of them each second; the first at once. */
export function createPace(perSecond: number, now: () => number = () => performance.now()): () => Promise<void> {
  let next = -Infinity;
  return async () => {
    const at = Math.max(next, now());
    next = at + 1_000 / perSecond;
    const waitMs = at - now();
    if (waitMs > 0) await sleep(waitMs);
  };
}

/** `100/s`, `100` → 100 a second; `30/m` → 0.5 a second; undefined if the text is no rate. */
export function parseRate(text: string): number | undefined {
  const match = /^(\d{1,9}(?:\.\d{1,3})?)(?:\/(s|m|h))?$/.exec(text);
  if (!match) return undefined;
  const perSecond = Number(match[1]) / { s: 1, m: 60, h: 3_600 }[(match[2] ?? 's') as 's' | 'm' | 'h'];
  return perSecond > 0 ? perSecond : undefined;
}
