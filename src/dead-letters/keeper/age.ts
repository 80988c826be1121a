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
} from './removal.ts';

/** The least time between the warning and the first removal, also after the bound was lowered. */
const FOREWARNING_MS = 3_600_000;

/** Warns of dead letters that are nearly too old, and removes those that are. */
export async function boundAge(
  shards: readonly Shard[],
  { maxAgeMs, now, forewarning, signal }: LookParts & { readonly maxAgeMs: number },
): Promise<Bounded> {
  const [warnUntil, removeUntil] = [now - WARN_FROM * maxAgeMs, now - maxAgeMs];
  const heads = await Promise.all(shards.map((shard) => shard.page(0, BATCH)));
  const oldest = Math.min(...heads.flat().map(diedAt));
  const forewarningMs = Math.min(FOREWARNING_MS, (1 - WARN_FROM) * maxAgeMs);
  const { since = now, isToBeTold } = await forewarning.note('age', maxAgeMs, oldest <= warnUntil, now);
  const mayRemoveFrom = since + forewarningMs;

  const byReason = new Map<DeadLetterReason, number>();
  if (now >= mayRemoveFrom && oldest <= removeUntil) {
    for (const shard of shards) await removeOlder(shard, removeUntil, byReason, signal);
  }
  const removal = { bound: 'age', byReason } as const;
  if (!isToBeTold) return { warning: undefined, removal };

  const going = (await Promise.all(shards.map((shard) => countUntil(shard, warnUntil)))).reduce((a, b) => a + b, 0);
  const firstAt = Math.max(mayRemoveFrom, now, oldest + maxAgeMs);
  const lastAt = Math.max(firstAt, warnUntil + maxAgeMs);
  return { warning: { bound: 'age', going, firstAt, lastAt, diedUntil: warnUntil }, removal };
}

/** Removes from the oldest on, up to the first page without an old one. */
async function removeOlder(
  shard: Shard,
  until: number,
  byReason: Map<DeadLetterReason, number>,
  signal: AbortSignal,
): Promise<void> {
  let removed = 0;
  for await (const page of shard.walk()) {
    const old = page.filter((stored) => diedAt(stored) <= until);
    if (old.length === 0 || removed >= MOST_A_LOOK || signal.aborted) return;
    const batch = old.map((stored) => ({ shard, stored, keep: 0 }));
    removed += await discardAll(batch, byReason);
  }
}

/** How many died until then. A binary search: they are in the order of arrival. */
async function countUntil(shard: Shard, until: number): Promise<number> {
  let [low, high] = [0, await shard.count()];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [stored] = await shard.page(middle, 1);
    if (stored !== undefined && diedAt(stored) <= until) low = middle + 1;
    else high = middle;
  }
  return low;
}
