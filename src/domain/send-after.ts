import type { Fault } from './faults.ts';
import { isObject } from './json.ts';

/** The range of `Date`. */
const MAX_DATE_MS = 8.64e15;

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
