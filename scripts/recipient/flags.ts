import { DURATION_FORMAT, formatDuration, parseDuration } from '../../src/domain/time.ts';
import { notificationSchema } from '../../src/domain/notification.ts';
import { UsageError } from '../support/command.ts';
import { INSTANT_FORMAT, parseInstant } from '../support/flags.ts';

/** The flags for an end; at most one of the two may be given. */
export interface EndFlags {
  /** Epoch milliseconds. */
  readonly until?: number;
  /** Milliseconds from now. */
  readonly for?: number;
}

/** The longest block. */
export const MOST_AHEAD_MS = 366 * 86_400_000;

/** Parses the argument with the recipient's id. */
export function recipientId(text: string): string {
  const checked = notificationSchema.shape.recipientId.safeParse(text);
  if (checked.success) return checked.data;
  throw unfit('ID', checked.error.issues[0]?.message ?? 'a recipient', text);
}

/** `--for 2h` */
export function forDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms > 0 && ms <= MOST_AHEAD_MS) return ms;
  throw unfit('--for', `${DURATION_FORMAT}, at most ${formatDuration(MOST_AHEAD_MS)}`, text);
}

/** `--until 2026-11-21T14:00:00Z` */
export function untilInstant(text: string): number {
  const at = parseInstant(text);
  if (at !== undefined) return at;
  throw unfit('--until', INSTANT_FORMAT, text);
}

/**
 * The end that the flags give, in epoch milliseconds; undefined if they give none. `now` is the limiter's clock; an instant may be
 * at most `mostMs` ahead of it.
 */
export function endOf({ until, for: forMs }: EndFlags, now: number, mostMs = Infinity): number | undefined {
  if (until === undefined) return forMs === undefined ? undefined : now + forMs;
  if (until > now && until <= now + mostMs) return until;
  const bound = mostMs === Infinity ? '' : `, by ${formatDuration(mostMs)} at most`;
  const expected = `an instant ahead of now, which is ${new Date(now).toISOString()}${bound}`;
  throw unfit('--until', expected, new Date(until).toISOString());
}

/** Refuses both flags at once. */
export function checkEnd({ until, for: forMs }: EndFlags): void {
  if (until !== undefined && forMs !== undefined)
    throw new UsageError('--until: expected --until or --for, found both');
}

/** `--for: expected a duration such as 2h, found "soon"` */
export function unfit(flag: string, expected: string, found: string): UsageError {
  return new UsageError(`${flag}: expected ${expected}, found ${JSON.stringify(found)}`);
}
