import type { DeadLetterReason } from '../../domain/outcome.ts';
import type { StoredDeadLetter } from '../list.ts';
import type { DeadLetters } from '../store.ts';
import type { Bound, Forewarning } from './forewarning.ts';

/** A warning of what will be removed soon. */
export type Warning =
  | {
      readonly bound: 'age';
      /** How many will be removed, the first one at `firstAt`, the last one at `lastAt`; epoch milliseconds. */
      readonly going: number;
      readonly firstAt: number;
      readonly lastAt: number;
      /** The latest time of death among them. */
      readonly diedUntil: number;
    }
  | {
      readonly bound: 'count';
      readonly count: number;
      /** How many will be removed at the next look; 0 if the bound is not reached yet. */
      readonly going: number;
    };

/** What was removed. */
export interface Removal {
  readonly bound: Bound;
  readonly byReason: ReadonlyMap<DeadLetterReason, number>;
}

/** The result of a look at one bound. */
export interface Bounded {
  readonly warning: Warning | undefined;
  readonly removal: Removal;
}

/** The dead letters of one shard. */
export type Shard = Pick<DeadLetters, 'count' | 'page' | 'walk' | 'discard'>;

/** What a look needs. */
export interface LookParts {
  /** Epoch milliseconds on Redis's clock. */
  readonly now: number;
  readonly forewarning: Forewarning;
  /** Fires when the worker stops: a look then ends between two batches. */
  readonly signal: AbortSignal;
}

/** A warning is given from this share of a bound on. */
export const WARN_FROM = 0.8;
/** How many are removed at once. */
export const BATCH = 100;
/** How many are removed in one look; the rest follows in the next looks. */
export const MOST_A_LOOK = 10_000;

export interface ToDiscard {
  readonly shard: Shard;
  readonly stored: StoredDeadLetter;
  /** How many must stay in the shard. */
  readonly keep: number;
}

/** Removes them. Adds those that still existed to `byReason`, and answers how many they were. */
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

/** The time of death. A worker's clock may be ahead, so it is at most the time of arrival in the queue. */
export function diedAt({ letter, buriedAt }: StoredDeadLetter): number {
  return Math.min(letter.deadAt, buriedAt);
}
