import type { Fault } from './faults.ts';
import { isObject } from './json.ts';

/** The range of `Date`. */
const MAX_DATE_MS = 8.64e15;

/** The rule of a notification that waits for its `sendAfter`. It is no wait of the limits. */
export const SEND_AFTER = 'sendAfter';

/**
 * How far ahead `sendAfter` and `expiresAt` may lie, in milliseconds: a leap year. Microseconds, and the year 9999 for "never", lie
 * beyond it; `apns-expiration` could not carry them in 32 bits.
 */
export const MOST_AHEAD_MS = 366 * 86_400_000;

interface Instants {
  /** Epoch milliseconds. */
  readonly sendAfter?: number | undefined;
  readonly expiresAt?: number | undefined;
}

/**
 * The faults of the instants that lie too far ahead of `now`.
 *
 * @param skewMs how much later `now` may be elsewhere: a worker lets it pass where the producer's clock may have
 */
export function tooFarAhead({ sendAfter, expiresAt }: Instants, now: number, skewMs = 0): Fault[] {
  return Object.entries({ sendAfter, expiresAt }).flatMap(([path, at = 0]) => {
    if (at <= now + MOST_AHEAD_MS + skewMs) return [];
    const expected = `an instant at most 366 days ahead, so by ${new Date(now + MOST_AHEAD_MS).toISOString()}`;
    return [{ path, expected, found: textOf(at) }];
  });
}

function textOf(at: number): string {
  return Math.abs(at) <= MAX_DATE_MS ? new Date(at).toISOString() : String(at);
}

/** Epoch milliseconds; undefined for what is no instant, which the check of its field reports. */
export function instantOf(value: unknown): number | undefined {
  const at = typeof value === 'string' ? Date.parse(value) : value;
  return typeof at === 'number' && Math.abs(at) <= MAX_DATE_MS ? at : undefined;
}

/** From when a notification waits: from its enqueuing, or from a later `sendAfter`. Epoch milliseconds. `data`: any job's data. */
export function waitsFrom(enqueuedAt: number, data: unknown): number {
  return Math.max(enqueuedAt, (isObject(data) ? instantOf(data['sendAfter']) : undefined) ?? 0);
}
