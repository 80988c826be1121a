import type { DeadLetterReason } from '../../domain/outcome.ts';
import {
  BATCH,
  diedAt,
  discardAll,
  MOST_A_LOOK,
  WARN_FROM,
  type Bounded,
  type LookParts,
  type Shard,
  type ToDiscard,
} from './removal.ts';

interface CountParts extends LookParts {
  readonly maxCount: number;
  readonly everyMs: number;
}

/** Warns if there are nearly too many. If there are too many, removes the oldest, at the look after the warning or later. */
export async function boundCount(
  shards: readonly Shard[],
  { maxCount, everyMs, now, forewarning, signal }: CountParts,
): Promise<Bounded> {
  const count = sum(await Promise.all(shards.map((shard) => shard.count())));
  const { since = now, isToBeTold } = await forewarning.note('count', maxCount, count >= WARN_FROM * maxCount, now);
  const byReason = new Map<DeadLetterReason, number>();
  if (now >= since + everyMs / 2) await removeOldest(shards, maxCount, byReason, signal);
  const warning = { bound: 'count', count, going: Math.max(0, count - maxCount) } as const;
  return { warning: isToBeTold ? warning : undefined, removal: { bound: 'count', byReason } };
}

/** Removes the oldest of all shards while there are more than `maxCount`. */
async function removeOldest(
  shards: readonly Shard[],
  maxCount: number,
  byReason: Map<DeadLetterReason, number>,
  signal: AbortSignal,
): Promise<void> {
  for (let removed = 0; removed < MOST_A_LOOK && !signal.aborted;) {
    const counts = await Promise.all(shards.map((shard) => shard.count()));
    const over = sum(counts) - maxCount;
    if (over <= 0) return;
    const gone = await discardAll(await oldestOf(shards, counts, Math.min(over, BATCH)), byReason);
    if (gone === 0) return;
    removed += gone;
  }
}

/** `keep` is what each shard has after this removal: if others take some away meanwhile, fewer are removed. */
async function oldestOf(shards: readonly Shard[], counts: readonly number[], most: number): Promise<ToDiscard[]> {
  const pages = await Promise.all(
    shards.map(async (shard) => (await shard.page(0, most)).map((stored) => ({ shard, stored }))),
  );
  const oldest = pages
    .flat()
    .sort((a, b) => diedAt(a.stored) - diedAt(b.stored))
    .slice(0, most);
  const keeps = new Map(
    shards.map((shard, index) => [shard, (counts[index] ?? 0) - oldest.filter((each) => each.shard === shard).length]),
  );
  return oldest.map((each) => ({ ...each, keep: keeps.get(each.shard) ?? 0 }));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
