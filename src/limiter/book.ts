import type { Admission, Ask } from './limiter.ts';
import { CLOCK_STEP_MS, GRACE_MS, HORIZON_MS, NO_SHOW_MS, type Pace } from './pace.ts';

interface Slot {
  readonly id: string;
  readonly at: number;
}

/** One recipient's slots in memory, oldest first. What is done with them is admit.lua's algorithm; the reasons are there. */
export interface Book {
  readonly sent: readonly Slot[];
  readonly reserved: readonly Slot[];
}

/** The answer to an ask, and the book after it where it changes. */
export interface Answer {
  readonly admission: Admission;
  readonly book?: Book;
}

/** An instant, and the name of the limit that decides it. */
interface Instant {
  readonly at: number;
  readonly rule: string;
}

export const EMPTY_BOOK: Book = { sent: [], reserved: [] };

/** The book without what is past, and without what a clock that is gone wrote. */
export function live({ sent, reserved }: Book, { longestMs }: Pace, now: number, keptMs: number): Book {
  const lastSent = now + longestMs + CLOCK_STEP_MS;
  const lastReserved = (newest(sent) ?? 0) > lastSent ? -Infinity : now + longestMs + HORIZON_MS;
  return {
    sent: sent.filter(({ at }) => at >= now - keptMs && at <= lastSent),
    reserved: reserved.filter(({ at }) => at >= now - NO_SHOW_MS && at <= lastReserved),
  };
}

/** When nothing of the book matters any more, in epoch milliseconds; `undefined` for an empty one. */
export function expiryOf({ sent, reserved }: Book, keptMs: number): number | undefined {
  const [lastSent, lastReserved] = [newest(sent), newest(reserved)];
  if (lastSent === undefined && lastReserved === undefined) return undefined;
  return Math.max((lastSent ?? 0) + keptMs, (lastReserved ?? 0) + NO_SHOW_MS);
}

export function answer(ask: Ask, book: Book, pace: Pace, now: number): Answer {
  const { id, maxWaitMs = Infinity, renew = false } = ask;
  const sentAt = timeOf(book.sent, id);
  const slot = timeOf(book.reserved, id);
  const others = { sent: without(book.sent, id), reserved: without(book.reserved, id) };
  const earliest = firstInstant(others.sent, pace, now);

  if (sentAt !== undefined && !renew) return { admission: admitted({ ...earliest, at: sentAt }, now, true) };
  if (slot !== undefined && slot > now + pace.holdMs) {
    return { admission: waiting({ ...earliest, at: slot }, now, maxWaitMs) };
  }
  const due = slot ?? sentAt;
  const returning = { ...earliest, at: Math.max(earliest.at, due ?? 0) };
  const isOnTime = due !== undefined && returning.at <= Math.max(now, due) + pace.holdMs;
  const goes = isOnTime ? returning : tailInstant(others, earliest.at, pace, now);
  if (isOnTime || goes.at <= now + pace.holdMs) {
    return { admission: admitted(goes, now), book: { ...others, sent: including(others.sent, { id, at: goes.at }) } };
  }
  const admission = waiting(goes, now, maxWaitMs);
  if (admission.kind === 'refused') return { admission };
  return { admission, book: { ...others, reserved: including(others.reserved, { id, at: goes.at }) } };
}

function admitted({ at, rule }: Instant, now: number, repeated = false): Admission {
  return { kind: 'admitted', at, sendAt: performance.now() + (at - now), repeated, rule };
}

function waiting({ at, rule }: Instant, now: number, maxWaitMs: number): Admission {
  const waitMs = at - now;
  return waitMs > maxWaitMs ? { kind: 'refused', waitMs, rule } : { kind: 'reserved', at, waitMs, rule };
}

/** The first instant at which every limit has room beside these slots, and the limit that decides it. */
function firstInstant(slots: readonly Slot[], { limits }: Pace, now: number): Instant {
  let deciding = { at: now - 1, rule: limits[0]?.name ?? 'none' };
  for (const { name, max, perMs } of limits) {
    const at = (slots.at(-max)?.at ?? -Infinity) + perMs;
    if (at > deciding.at) deciding = { at, rule: name };
  }
  return { ...deciding, at: Math.max(now, deciding.at) };
}

/** The first instant behind every reservation that is still waited for. */
function tailInstant({ sent, reserved }: Book, earliest: number, pace: Pace, now: number): Instant {
  const floor = Math.max(earliest - pace.holdMs, newest(sent) ?? 0);
  const queued = reserved
    .filter(({ at }) => at >= now - GRACE_MS)
    .map(({ id, at }) => ({ id, at: Math.max(at, floor) }));
  const tail = firstInstant([...sent, ...queued], pace, now);
  return { ...tail, at: Math.max(tail.at, newest(queued) ?? 0) };
}

function timeOf(slots: readonly Slot[], id: string): number | undefined {
  return slots.find((slot) => slot.id === id)?.at;
}

function newest(slots: readonly Slot[]): number | undefined {
  return slots.at(-1)?.at;
}

export function without(slots: readonly Slot[], id: string): readonly Slot[] {
  return slots.filter((slot) => slot.id !== id);
}

export function withMoved(slots: readonly Slot[], id: string, at: number): readonly Slot[] {
  return including(without(slots, id), { id, at });
}

function including(slots: readonly Slot[], slot: Slot): readonly Slot[] {
  const place = slots.findLastIndex(({ at }) => at <= slot.at) + 1;
  return slots.toSpliced(place, 0, slot);
}
