import type { DeadLetterReason } from '../domain/outcome.ts';
import type { DeadLetters, StoredDeadLetter } from './dead-letters.ts';

/** Which dead letters; what is left out does not matter. */
export interface DeadLetterFilter {
  readonly reason?: DeadLetterReason;
  readonly recipientId?: string;
  /** The notification's id, or that of the dead letter's job. */
  readonly id?: string;
  /** The first and the last instant of death: epoch milliseconds. */
  readonly sinceMs?: number;
  readonly untilMs?: number;
}

export interface ReplayOptions {
  readonly filter?: DeadLetterFilter;
  /** Dead letters that came later are left, so that those which die again are not replayed forever. Redis's clock. */
  readonly buriedUntilMs: number;
  /** At most so many. */
  readonly limit?: number;
  /** Counts what would be replayed. */
  readonly isDryRun?: boolean;
  /** Awaited before each replay: bounds the rate. */
  readonly pace?: () => Promise<void>;
  /** Called for each dead letter that was looked at. */
  readonly onSeen?: () => void;
}

export interface Replayed {
  /** Dead letters looked at. */
  readonly seen: number;
  /** Those that the filter takes, by reason. */
  readonly matched: ReadonlyMap<string, number>;
  /** Those put back into the queue; fewer than matched where somebody else was faster, and 0 in a dry run. */
  readonly replayed: number;
}

const PAGE = 100;

/** Puts dead letters back into the queue, oldest first. Ended half-way, it is started again and goes on. */
export async function replayAll(deadLetters: DeadLetters, options: ReplayOptions): Promise<Replayed> {
  const { filter = {}, buriedUntilMs, limit = Infinity, isDryRun = false, pace, onSeen } = options;
  const matched = new Map<string, number>();
  let [seen, taken, replayed, left] = [0, 0, 0, 0];

  while (taken < limit) {
    const page = (await deadLetters.page(left, PAGE)).filter(({ buriedAt }) => buriedAt <= buriedUntilMs);
    if (page.length === 0) break;
    const batch = page.filter((stored) => matches(stored, filter)).slice(0, limit - taken);
    for (const { letter } of batch) matched.set(letter.reason, (matched.get(letter.reason) ?? 0) + 1);
    taken += batch.length;
    if (!isDryRun) {
      const ids = await Promise.all(
        batch.map(async (stored) => {
          await pace?.();
          const id = await deadLetters.replay(stored);
          onSeen?.();
          return id;
        }),
      );
      replayed += ids.filter((id) => id !== undefined).length;
    }
    // What was replayed has left the queue; the next page begins after what has stayed.
    left += isDryRun ? page.length : page.length - batch.length;
    seen += page.length;
    for (let told = isDryRun ? 0 : batch.length; told < page.length; told++) onSeen?.();
  }
  return { seen, matched, replayed };
}

function matches({ id, letter }: StoredDeadLetter, filter: DeadLetterFilter): boolean {
  const { reason, recipientId, sinceMs = -Infinity, untilMs = Infinity } = filter;
  return (
    (reason === undefined || letter.reason === reason) &&
    (recipientId === undefined || field(letter.notification, 'recipientId') === recipientId) &&
    (filter.id === undefined || id === filter.id || field(letter.notification, 'id') === filter.id) &&
    letter.deadAt >= sinceMs &&
    letter.deadAt <= untilMs
  );
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
