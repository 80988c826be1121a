import type { Queue } from 'bullmq';
import type { DeadLetter } from '../domain/outcome.ts';
import { readDeadLetter } from './letter.ts';
import { forgetJob, readJob } from './job-hash.ts';
import { defineQueueScript } from '../redis/scripts.ts';

/** A dead letter in its queue. */
export interface StoredDeadLetter {
  /** The id of its job in `dead-letters`. */
  readonly id: string;
  /** When it came into that queue: epoch milliseconds on Redis's clock. */
  readonly buriedAt: number;
  readonly letter: DeadLetter;
}

/** How many are read at once. */
const PAGE = 100;
/** How many ids a walk remembers to find its position again. */
const REMEMBERED = 2 * PAGE;

const NEXT_IDS = defineQueueScript<[left: number, found: number, ...ids: string[]]>(
  new URL('page.lua', import.meta.url),
  1,
);

/** One dead letter, by the id of its job. */
export async function findDeadLetter(deadQueue: Queue, id: string): Promise<StoredDeadLetter | undefined> {
  const job = await readJob(deadQueue, id);
  return job && { id, buriedAt: job.timestamp, letter: readDeadLetter(job.data) };
}

/** At most `limit` after the first `offset`, oldest first; fewer if jobs were deleted by hand. */
export async function pageOfDeadLetters(deadQueue: Queue, offset: number, limit: number): Promise<StoredDeadLetter[]> {
  const client = await deadQueue.getBackend().client;
  const ids = await client.lrange(deadQueue.toKey('wait'), -(offset + limit), -(offset + 1));
  return readAll(deadQueue, ids.reverse());
}

/**
 * All of them, oldest first, page by page; a page may be empty although others follow. Dead letters may be taken away during the
 * walk, by others or by the caller. One that exists all the time is seen exactly once.
 */
export async function* walkDeadLetters(deadQueue: Queue): AsyncGenerator<StoredDeadLetter[], void, undefined> {
  let [seen, seenCount]: [readonly string[], number] = [[], 0];
  for (;;) {
    const options = [PAGE, deadQueue.toKey(''), seenCount, ...seen];
    const [left, found, ...ids] = await NEXT_IDS(deadQueue, [deadQueue.toKey('wait'), ...options]);
    if (ids.length === 0) return;
    yield await readAll(deadQueue, ids);
    // The ids before the one that was found do not exist any more.
    const stillThere = found === 0 ? [] : seen.slice(found - 1);
    seen = [...ids.toReversed(), ...stillThere].slice(0, REMEMBERED);
    seenCount = left + ids.length;
  }
}

async function readAll(deadQueue: Queue, ids: readonly string[]): Promise<StoredDeadLetter[]> {
  const letters = await Promise.all(
    ids.map(async (id) => {
      const letter = await findDeadLetter(deadQueue, id);
      if (letter === undefined) await forgetJob(deadQueue, 'wait', id);
      return letter;
    }),
  );
  return letters.filter((letter) => letter !== undefined);
}
