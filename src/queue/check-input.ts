import type { Fault } from '../domain/faults.ts';
import { payloadFaults } from '../domain/notification-rules.ts';
import { parseNotification } from '../domain/notification.ts';
import { tooFarAhead } from '../domain/send-after.ts';
import type { Entry } from './add-jobs.ts';
import type { Enqueued, EnqueueInput } from './enqueued.ts';
import { PRIORITY } from './names.ts';

/** What is to be added for a notification that fits, or everything that is wrong with it. */
export type Check =
  | {
      readonly entry: Entry;
      /** 0 if it may be sent at once. */
      readonly sendAfter: number;
      readonly expiresAt?: number | undefined;
      readonly faults?: never;
    }
  | { readonly entry?: never; readonly faults: readonly Fault[] };

export function check(input: EnqueueInput): Check {
  const isWithoutId = (input as EnqueueInput | null | undefined)?.id === undefined; // callers may be plain JavaScript
  const data: unknown = isWithoutId && isObject(input) ? { ...input, id: crypto.randomUUID() } : input;
  const parsed = parseNotification(data);
  if (!parsed.ok) return { faults: parsed.faults };
  const tooLarge = payloadFaults(parsed.notification);
  if (tooLarge.length > 0) return { faults: tooLarge };
  const { id, recipientId, priority, sendAfter = 0, expiresAt, cancellationKey, collapseId } = parsed.notification;
  const now = Date.now();
  const tooFar = tooFarAhead({ sendAfter, expiresAt }, now);
  if (tooFar.length > 0) return { faults: tooFar };
  const delayMs = Math.max(0, sendAfter - now);
  const orderKey = parsed.notification.onThrottle === 'latest' ? `${recipientId} ${collapseId}` : undefined;
  const entry = { id, recipientId, priority: PRIORITY[priority], delayMs, orderKey, cancellationKey, data };
  return { entry, sendAfter, expiresAt };
}

/** The time over which a broadcast is spread: from an instant in epoch milliseconds, for `ms`. */
export interface Spread {
  readonly from: number;
  readonly ms: number;
}

/** Delays it to a random instant of the spread, which begins at `sendAfter` if that is later. One that may expire before the end of the spread is refused, since this alone might expire it. */
export function delayed(checked: Check, spread: Spread = { from: 0, ms: 0 }): Check {
  const { ms } = spread;
  if (checked.entry === undefined || ms === 0) return checked;
  const { entry, sendAfter, expiresAt = Infinity } = checked;
  const from = Math.max(spread.from, sendAfter);
  if (expiresAt <= from + ms) {
    const expected = `a time after ${new Date(from + ms).toISOString()}, when the spread of ${ms} ms ends`;
    return { faults: [{ path: 'expiresAt', expected, found: new Date(expiresAt).toISOString() }] };
  }
  const delayMs = Math.max(0, Math.round(from + Math.random() * ms - Date.now()));
  return { ...checked, entry: { ...entry, delayMs } };
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Checks a notification as a producer does, without Redis: `invalid` with every fault, or `added`, which means that it would
 * be added if its id is free. For a form that says what is wrong before anything is sent.
 */
export function checkInput(input: EnqueueInput): Enqueued {
  const { entry, faults } = check(input);
  return entry === undefined ? { kind: 'invalid', faults } : { kind: 'added', id: entry.id };
}
