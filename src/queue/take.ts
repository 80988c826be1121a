import type { DeadLetterReason } from '../domain/outcome.ts';
import { matches, type DeadLetterFilter } from './dead-letter-filter.ts';
import type { StoredDeadLetter } from './dead-letter-list.ts';
import type { DeadLetters } from './dead-letters.ts';

export interface TakeOptions {
  readonly filter?: DeadLetterFilter;
  /** Later dead letters are skipped, so that replayed ones that die again do not make an endless loop. Redis's clock. */
  readonly buriedUntilMs: number;
  /** How many to take at most. */
  readonly limit?: number;
  /** Takes one; false if it was gone. Absent: they are only counted. */
  readonly take?: (stored: StoredDeadLetter) => Promise<boolean>;
  /** Awaited before each: bounds the rate. */
  readonly pace?: () => Promise<void>;
  /** Called for each dead letter that was looked at. */
  readonly onSeen?: () => void;
}

export interface Taken {
  /** How many dead letters were looked at. */
  readonly seen: number;
  /** How many of them match the filter, by reason. */
  readonly matched: ReadonlyMap<DeadLetterReason, number>;
  /** How many were taken: fewer than matched if another process was faster, and 0 if they were only counted. */
  readonly taken: number;
}

/**
 * Replays or removes dead letters, oldest first. If it is ended half-way, start it again and it goes on.
 */
export async function takeAll(deadLetters: Pick<DeadLetters, 'walk'>, options: TakeOptions): Promise<Taken> {
  const { filter = {}, buriedUntilMs, limit = Infinity, take, pace, onSeen } = options;
  const matched = new Map<DeadLetterReason, number>();
  let [seen, chosen, taken] = [0, 0, 0];

  async function takeOne(stored: StoredDeadLetter): Promise<void> {
    await pace?.();
    if (await take?.(stored)) taken++;
    onSeen?.();
  }

  for await (const all of deadLetters.walk()) {
    const page = all.filter(({ buriedAt }) => buriedAt <= buriedUntilMs);
    const batch = page.filter((stored) => matches(stored, filter)).slice(0, limit - chosen);
    for (const { letter } of batch) matched.set(letter.reason, (matched.get(letter.reason) ?? 0) + 1);
    chosen += batch.length;
    await Promise.all(batch.map(takeOne));
    for (let told = batch.length; told < page.length; told++) onSeen?.();
    seen += page.length;
    if (page.length < all.length || chosen >= limit) break;
  }
  return { seen, matched, taken };
}
