import { defineScript, readScript, type ScriptRedis } from '../redis/scripts.ts';
import { homeOf, homesOf, type Layout } from './shards/layout.ts';
import { cancellationIndexKey, ID_KEPT_S } from './names.ts';

/** Which jobs wait under a cancellation key. This index is needed because a queue can only be searched by job id. */
export interface CancellationIndex {
  /** To be called when a job waits, for `waitMs` or longer. */
  waits(place: KeyPlace, jobId: string, waitMs: number): Promise<void>;
  /** To be called when a job has ended. `isFound`: a cancel by the key still finds it for an hour, while its id is taken. */
  ended(place: KeyPlace, jobId: string, isFound: boolean): Promise<void>;
}

/** A recipient, and a key under which its notifications can be canceled. */
export interface KeyPlace {
  readonly recipientId: string;
  readonly cancellationKey: string;
}

/**
 * An id stays in the index this much longer than its job is delayed: workers may be stopped, or an action may move the job to a
 * later time without a pass. The limiter keeps waiting notifications as long (waiting.lua).
 */
const INDEX_KEPT_MS = 400 * 86_400_000;
/** The most notifications in one index. */
const MOST_IDS = 1_000;
const LUA = readScript('cancellation-index.lua', import.meta.url);

export function createCancellationIndex(redis: ScriptRedis, layout: () => Layout): CancellationIndex {
  const script = defineScript<number>(redis, 'pushpacer:cancellation-index', LUA, 1);
  const keyOf = ({ recipientId, cancellationKey }: KeyPlace): string =>
    cancellationIndexKey(homeOf(recipientId, layout()), recipientId, cancellationKey);
  const write = async (key: string, jobId: string, keptMs: number): Promise<void> => {
    await script(key, jobId, Math.ceil(keptMs), MOST_IDS);
  };
  return {
    waits: (place, jobId, waitMs) => write(keyOf(place), jobId, Math.max(0, waitMs) + INDEX_KEPT_MS),
    async ended(place, jobId, isFound) {
      const { recipientId, cancellationKey } = place;
      const [home, ...others] = homesOf(recipientId, layout()).map((prefix) =>
        cancellationIndexKey(prefix, recipientId, cancellationKey),
      );
      if (home !== undefined) await write(home, jobId, isFound ? ID_KEPT_S * 1_000 : 0);
      // The job may have been noted before the number of shards changed, so it is removed from the former places too.
      await Promise.all(others.map((key) => write(key, jobId, 0)));
    },
  };
}

/**
 * The command that adds a new job to the index. It contains the whole script, since a transaction cannot load a script.
 *
 * @param added for use after the add in the same transaction: nothing is written unless this hash has this timestamp
 */
export function indexCommand(
  key: string,
  job: { readonly id: string; readonly delayMs: number },
  added?: { readonly key: string; readonly timestamp: number },
): readonly ['eval', (string | number)[]] {
  const keptMs = Math.ceil(job.delayMs) + INDEX_KEPT_MS;
  const keys = added === undefined ? [1, key] : [2, key, added.key];
  return ['eval', [LUA, ...keys, job.id, keptMs, MOST_IDS, ...(added === undefined ? [] : [added.timestamp])]];
}
