import { DURATION_FORMAT, formatDuration, parseDuration } from '../../src/domain/time.ts';
import { notificationSchema } from '../../src/domain/notification.ts';
import { UsageError } from '../support/command.ts';
import { INSTANT_FORMAT, parseInstant } from '../support/flags.ts';

/** The flags that tell an end: one of the two, or none. */
export interface EndFlags {
  /** Epoch milliseconds. */
  readonly until?: number;
  /** Milliseconds from now. */
  readonly for?: number;
}

/** A block reaches no further ahead. */
export const MOST_AHEAD_MS = 366 * 86_400_000;

/** An argument of commander: whose limits it is about. */
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
 * The end that the flags tell, in epoch milliseconds, where `now` is the limiter's clock; undefined where they tell none.
 * An instant is at most `mostMs` ahead.
 */
export function endOf({ until, for: forMs }: EndFlags, now: number, mostMs = Infinity): number | undefined {
  if (until === undefined) return forMs === undefined ? undefined : now + forMs;
  if (until > now && until <= now + mostMs) return until;
  const bound = mostMs === Infinity ? '' : `, by ${formatDuration(mostMs)} at most`;
  const expected = `an instant ahead of now, which is ${new Date(now).toISOString()}${bound}`;
  throw unfit('--until', expected, new Date(until).toISOString());
}

/** Two ends are one too many, whatever they say. */
export function checkEnd({ until, for: forMs }: EndFlags): void {
  if (until !== undefined && forMs !== undefined)
    throw new UsageError('--until: expected --until or --for, found both');
}

/** `--for: expected a duration such as 2h, found "soon"` */
export function unfit(flag: string, expected: string, found: string): UsageError {
  return new UsageError(`${flag}: expected ${expected}, found ${JSON.stringify(found)}`);
}
