import { defined, parseObject } from '../domain/json.ts';
import { isOrder, notificationIdOf } from '../queue/names.ts';
import { readJobs } from '../queue/readable.ts';
import type { ShardQueues } from '../queue/shards/shards.ts';
import type { Connection } from '../redis/connection.ts';

/** A notification that matches the text and has not ended. */
export interface FoundNotification {
  readonly id: string;
  readonly recipientId?: string;
  readonly category?: string;
  readonly cancellationKey?: string;
  /** Epoch milliseconds. */
  readonly enqueuedAt: number;
}

export interface SearchResult {
  readonly found: readonly FoundNotification[];
  /** More notifications matched than are in `found`. */
  readonly isCut: boolean;
  /** How many notifications were looked at, and how many have not ended. */
  readonly lookedAt: number;
  readonly of: number;
}

/** How many notifications are looked at: the queue has no index by text, so each has to be read. */
const MOST_LOOKED_AT = 20_000;
const MOST_FOUND = 50;
/** This many jobs are read by one command, which takes Redis half a millisecond. */
const PAGE = 50;

/**
 * Finds notifications that have not ended, and whose id, recipient or category begins with the text, or whose cancellation key
 * is the text. Looks at 20,000 at most in all shards: first those that a worker has, then new and due ones, then delayed ones
 * by due time.
 *
 * @param signal stops the search between its steps, because nobody waits for it any more
 */
export async function searchWaiting(
  shards: readonly ShardQueues[],
  connection: Connection,
  text: string,
  signal?: AbortSignal,
): Promise<SearchResult> {
  const found: FoundNotification[] = [];
  let [lookedAt, of] = [0, 0];
  const most = Math.ceil(MOST_LOOKED_AT / shards.length);
  for (const { queue } of shards) {
    const lists = (['active', 'wait'] as const).map((name) => connection.lrange(queue.toKey(name), 0, most));
    const sets = (['prioritized', 'delayed'] as const).map((name) =>
      connection.zrange(queue.toKey(name), '0', String(most)),
    );
    const ids = (await Promise.all([...lists, ...sets])).flat().slice(0, most);
    of += await queue.getJobCountByTypes('active', 'wait', 'prioritized', 'delayed');
    for (let from = 0; from < ids.length && found.length <= MOST_FOUND; from += PAGE) {
      signal?.throwIfAborted();
      const page = ids.slice(from, from + PAGE);
      const jobs = await readJobs(queue, page, 0);
      lookedAt += page.length;
      for (const [index, [, data, timestamp, name]] of jobs.entries()) {
        if (timestamp === null || isOrder(name ?? '')) continue;
        const fields = parseObject(data ?? '');
        const id = textOf(fields['id']) ?? notificationIdOf(page[index] ?? '');
        const [recipientId, category, cancellationKey] = ['recipientId', 'category', 'cancellationKey'].map((field) =>
          textOf(fields[field]),
        );
        const isFound =
          [id, recipientId, category].some((value) => value?.startsWith(text)) || cancellationKey === text;
        if (!isFound) continue;
        found.push(defined({ id, recipientId, category, cancellationKey, enqueuedAt: Number(timestamp) }));
      }
    }
  }
  return { found: found.slice(0, MOST_FOUND), isCut: found.length > MOST_FOUND, lookedAt, of };
}

/** A text that is longer than this is not valid in any of these fields, and may be a token in the wrong place. */
const MOST_TEXT = 256;

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= MOST_TEXT ? value : undefined;
}
