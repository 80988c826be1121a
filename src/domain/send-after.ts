import type { Fault } from './faults.ts';

/** The rule of a notification that waits for its `sendAfter`. It is no wait of the limits. */
export const SEND_AFTER = 'sendAfter';

/** How far ahead `sendAfter` may lie, in milliseconds: a leap year. */
export const MOST_AHEAD_MS = 366 * 86_400_000;

/** The fault of a `sendAfter` (epoch milliseconds) that lies too far ahead of `now`; undefined if it does not. */
export function tooFarAhead(sendAfter: number, now: number): Fault | undefined {
  if (sendAfter <= now + MOST_AHEAD_MS) return undefined;
  const expected = `an instant at most 366 days ahead, so by ${new Date(now + MOST_AHEAD_MS).toISOString()}`;
  return { path: 'sendAfter', expected, found: textOf(sendAfter) };
}

function textOf(at: number): string {
  return Math.abs(at) <= 8.64e15 ? new Date(at).toISOString() : String(at); // the range of Date
}
