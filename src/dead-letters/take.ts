import { valueAt } from '../domain/json.ts';
import type { Platform } from '../domain/notification.ts';
import type { DeadLetter, DeadLetterReason } from '../domain/outcome.ts';
import { openDevicesOf, statedIdOf, type StoredDeadLetter } from './letter.ts';
import type { DeadLetters } from './store.ts';

/** Selects dead letters; a field that is left out matches all. */
export interface DeadLetterFilter {
  readonly reason?: DeadLetterReason;
  readonly recipientId?: string;
  /** Of a device that was not alerted. An empty `app` is the app of the environment. With both, one device must fit both. */
  readonly platform?: Platform;
  readonly app?: string;
  readonly category?: string;
  /** The notification's id, or that of the dead letter's job. */
  readonly id?: string;
  /** The earliest and the latest time of death: epoch milliseconds. */
  readonly sinceMs?: number;
  readonly untilMs?: number;
}

export function matches({ id, letter }: StoredDeadLetter, filter: DeadLetterFilter): boolean {
  const { reason, recipientId, category, sinceMs = -Infinity, untilMs = Infinity } = filter;
  return (
    (reason === undefined || letter.reason === reason) &&
    (recipientId === undefined || valueAt(letter.notification, 'recipientId') === recipientId) &&
    (category === undefined || valueAt(letter.notification, 'category') === category) &&
    (filter.id === undefined || id === filter.id || statedIdOf(letter.notification) === filter.id) &&
    letter.deadAt >= sinceMs &&
    letter.deadAt <= untilMs &&
    isOfDevice(letter, filter)
  );
}

function isOfDevice(letter: DeadLetter, { platform, app }: DeadLetterFilter): boolean {
  if (platform === undefined && app === undefined) return true;
  return openDevicesOf(letter).some(
    (device) => (platform ?? device.platform) === device.platform && (app ?? device.app ?? '') === (device.app ?? ''),
  );
}

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
  /** Called for each that matches, in their order, before it is taken. */
  readonly onMatched?: (stored: StoredDeadLetter) => void;
  /** Called for each dead letter that was looked at. */
  readonly onSeen?: () => void;
}

export interface TakeResult {
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
export async function takeAll(deadLetters: Pick<DeadLetters, 'walk'>, options: TakeOptions): Promise<TakeResult> {
  const { filter = {}, buriedUntilMs, limit = Infinity, take, pace, onMatched, onSeen } = options;
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
    for (const stored of batch) {
      const { reason } = stored.letter;
      matched.set(reason, (matched.get(reason) ?? 0) + 1);
      onMatched?.(stored);
    }
    chosen += batch.length;
    await Promise.all(batch.map(takeOne));
    for (let others = page.length - batch.length; others > 0; others--) onSeen?.();
    seen += page.length;
    if (page.length < all.length || chosen >= limit) break;
  }
  return { seen, matched, taken };
}
