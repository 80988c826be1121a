import type { DeadLetterReason } from '../../domain/outcome.ts';
import type { StoredDeadLetter } from '../list.ts';
import type { DeadLetters } from '../store.ts';
import type { Bound, Forewarning } from './forewarning.ts';

/** What will be removed, unless somebody looks. */
export type Warning =
  | {
      readonly bound: 'age';
      /** So many go until `lastAt`, the first one at `firstAt`; epoch milliseconds. */
      readonly going: number;
      readonly firstAt: number;
      readonly lastAt: number;
      /** All of these died then or before. */
      readonly diedUntil: number;
    }
  | {
      readonly bound: 'count';
      readonly count: number;
      /** So many go at the next look: 0 where there is room left. */
      readonly going: number;
    };

/** What was removed. */
export interface Removal {
  readonly bound: Bound;
  readonly byReason: ReadonlyMap<DeadLetterReason, number>;
}

/** What keeping to one bound came to. */
export interface Bounded {
  readonly warning: Warning | undefined;
  readonly removal: Removal;
}

/** The dead letters of one shard. */
export type Shard = Pick<DeadLetters, 'count' | 'page' | 'walk' | 'discard'>;

/** What a look is made with. */
export interface LookParts {
  /** Epoch milliseconds on Redis's clock. */
  readonly now: number;
  readonly forewarning: Forewarning;
  /** Fires when the worker stops: a look then ends between two batches. */
  readonly signal: AbortSignal;
}

/** Warned of from this share of a bound on. */
export const WARN_FROM = 0.8;
/** So many are removed at once, */
export const BATCH = 100;
/** and so many in one look; what is left goes in the next ones. */
export const MOST_A_LOOK = 10_000;

export interface ToDiscard {
  readonly shard: Shard;
  readonly stored: StoredDeadLetter;
  /** So many are to stay in the shard. */
  readonly keep: number;
}

/** Removes them, and counts by reason those that were still there; answers how many. */
export async function discardAll(
  batch: readonly ToDiscard[],
  byReason: Map<DeadLetterReason, number>,
): Promise<number> {
  const answers = await Promise.all(batch.map(({ shard, stored, keep }) => shard.discard(stored.id, keep)));
  const gone = batch.filter((_, index) => answers[index] === 'discarded');
  for (const { stored } of gone) {
    const { reason } = stored.letter;
    byReason.set(reason, (byReason.get(reason) ?? 0) + 1);
  }
  return gone.length;
}

/** A worker's clock may be ahead: no dead letter died after it came here. */
export function diedAt({ letter, buriedAt }: StoredDeadLetter): number {
  return Math.min(letter.deadAt, buriedAt);
}
