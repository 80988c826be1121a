import { matches, type DeadLetterFilter } from '../../src/queue/dead-letter-filter.ts';
import type { StoredDeadLetter } from '../../src/queue/dead-letter-list.ts';
import type { DeadLetters } from '../../src/queue/dead-letters.ts';
import type { Desk } from '../support/dead-letter-desk.ts';

/** Dead letters of all shards that match the filter, oldest first; one page of each shard is in memory at a time. */
export async function* inOrder(
  { shards, now }: Pick<Desk, 'shards' | 'now'>,
  filter: DeadLetterFilter,
): AsyncGenerator<StoredDeadLetter, void, undefined> {
  const walks = shards.map((shard) => chosenOf(shard, filter, now));
  const heads = await Promise.all(walks.map(headOf));
  for (;;) {
    const deaths = heads.map((head) => head?.letter.deadAt ?? Infinity);
    const oldest = deaths.indexOf(Math.min(...deaths));
    const [walk, head] = [walks[oldest], heads[oldest]];
    if (walk === undefined || head === undefined) return;
    yield head;
    heads[oldest] = await headOf(walk);
  }
}

type Walk = AsyncGenerator<StoredDeadLetter, undefined, undefined>;

async function headOf(walk: Walk): Promise<StoredDeadLetter | undefined> {
  return (await walk.next()).value;
}

async function* chosenOf(shard: DeadLetters, filter: DeadLetterFilter, now: number): Walk {
  for await (const page of shard.walk()) {
    for (const stored of page) if (stored.buriedAt <= now && matches(stored, filter)) yield stored;
  }
  return undefined;
}
