import { setImmediate as othersWork, setTimeout as sleep } from 'node:timers/promises';
import type { Fault } from './faults.ts';
import { isObject } from './json.ts';

const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** What a duration looks like, for error messages. */
export const DURATION_FORMAT = 'a duration such as 250ms, 3s, 1m, 2h or 1d';

/** What an instant looks like, for error messages. */
export const INSTANT_FORMAT = 'an RFC 3339 date-time or epoch milliseconds';

/** `"3s"` → `3000` (milliseconds), `"0"` → `0`; `undefined` if the text is no duration. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  const match = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * UNIT_MS[match[2] as keyof typeof UNIT_MS];
}

/** `3000` → `"3s"`: in the largest unit that gives a whole number. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0';
  const units = Object.entries(UNIT_MS).reverse();
  const [unit, size] = units.find(([, unitMs]) => ms % unitMs === 0) ?? ['ms', 1];
  return `${ms / size}${unit}`;
}

const SPANS = [
  { unit: 'd', size: UNIT_MS.d, then: 'h', step: UNIT_MS.h },
  { unit: 'h', size: UNIT_MS.h, then: 'm', step: UNIT_MS.m },
  { unit: 'm', size: UNIT_MS.m, then: 's', step: UNIT_MS.s },
] as const;

/** A duration for people, in at most two units: 950 → `950ms`, 12_340 → `12.3s`, 7_260_000 → `2h 1m`. */
export function span(ms: number): string {
  if (Math.round(ms) < UNIT_MS.s) return `${Math.round(ms)}ms`;
  const tenths = Math.round(ms / 100) / 10;
  if (tenths < 60) return `${tenths}s`;
  for (const { unit, size, then, step } of SPANS) {
    const steps = Math.round(ms / step);
    const whole = Math.floor((steps * step) / size);
    if (whole === 0) continue;
    const rest = steps - (whole * size) / step;
    return rest === 0 ? `${whole}${unit}` : `${whole}${unit} ${rest}${then}`;
  }
  return '1m'; // 59.95 s and more
}

/** `firstMs` doubled `times` times, but at most `mostMs`. Milliseconds. */
export function doubledMs(firstMs: number, mostMs: number, times: number): number {
  return Math.min(firstMs * 2 ** Math.min(times, 30), mostMs); // 2^30 ms are twelve days; this keeps the number finite
}

/**
 * Sleeps until an instant of `performance.now()`; false if the signal aborted first. Node's timers may fire a fraction of a
 * millisecond early; this never returns early.
 */
export async function sleepUntil(instant: number, signal: AbortSignal): Promise<boolean> {
  for (let leftMs = instant - performance.now(); leftMs > 0; leftMs = instant - performance.now()) {
    if (signal.aborted) break;
    await sleep(Math.ceil(leftMs), undefined, { signal }).catch(() => undefined); // it rejects when the signal aborts
  }
  return !signal.aborted;
}

/** The result of `work`, or the result of `late` if `work` takes longer than `ms`. Rejects if `work` rejects in time. */
export async function within<T, Late = undefined>(work: Promise<T>, ms: number, late?: () => Late): Promise<T | Late> {
  const timer = new AbortController();
  const tooLate = sleep(ms, undefined, { signal: timer.signal }).then(() => late?.() as Late);
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    timer.abort();
  }
}

/** How long a loop may keep the process from all other work, in milliseconds. */
const TURN_MS = 5;

/** To be called between the steps of long work: after some milliseconds, everything else that waits in this process has its turn. */
export function takingTurns(): () => Promise<void> | undefined {
  let startMs = performance.now();
  return () => {
    if (performance.now() - startMs <= TURN_MS) return undefined;
    return othersWork().then(() => void (startMs = performance.now()));
  };
}

/** Maps one item after the other, in turns with everything else that waits in this process. */
export async function mapInTurns<T, Result>(items: readonly T[], map: (item: T) => Result): Promise<Result[]> {
  const results: Result[] = [];
  const turn = takingTurns();
  for (const item of items) {
    const others = turn();
    if (others !== undefined) await others;
    results.push(map(item));
  }
  return results;
}

/** The range of `Date`. */
const MAX_DATE_MS = 8.64e15;

/** Stands in place of a rule while a notification waits for its `sendAfter`. No limit causes that wait. */
export const SEND_AFTER = 'sendAfter';

/**
 * How far ahead `sendAfter` and `expiresAt` may lie, in milliseconds: a leap year. An instant in microseconds by mistake, or
 * the year 9999 for "never", is further ahead; `apns-expiration` has only 32 bits and could not contain it.
 */
const MOST_AHEAD_MS = 366 * 86_400_000;

/**
 * The faults of instants that lie too far ahead of `now`.
 *
 * @param skewMs how far another clock may be ahead: a worker must not refuse what a producer with another clock accepted
 */
export function tooFarAhead(
  { sendAfter, expiresAt }: { readonly sendAfter?: number | undefined; readonly expiresAt?: number | undefined },
  now: number,
  skewMs = 0,
): Fault[] {
  return Object.entries({ sendAfter, expiresAt }).flatMap(([path, at = 0]) => {
    if (at <= now + MOST_AHEAD_MS + skewMs) return [];
    const expected = `an instant at most 366 days ahead, so by ${new Date(now + MOST_AHEAD_MS).toISOString()}`;
    return [{ path, expected, found: textOf(at) }];
  });
}

function textOf(at: number): string {
  return Math.abs(at) <= MAX_DATE_MS ? new Date(at).toISOString() : String(at);
}

/** An instant in epoch milliseconds; undefined for any other value, which the check of its field reports. */
export function instantOf(value: unknown): number | undefined {
  const at = typeof value === 'string' ? Date.parse(value) : value;
  return typeof at === 'number' && Math.abs(at) <= MAX_DATE_MS ? at : undefined;
}

/**
 * The instant from which a notification waits, in epoch milliseconds: when it was enqueued, or its `sendAfter` if that is
 * later. `data`: any job's data.
 */
export function waitsFrom(enqueuedAt: number, data: unknown): number {
  return Math.max(enqueuedAt, (isObject(data) ? instantOf(data['sendAfter']) : undefined) ?? 0);
}

/** Histogram bounds: how late a wake-up is, in milliseconds. A wake-up later than the last bound is counted separately. */
export const LATENESS_BOUNDS_MS = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000] as const;

/** Waits `ms` milliseconds. On abort it rejects with the signal's reason; Node's own timer rejects with an AbortError. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

/** Reads at most once in `everyMs` milliseconds, and answers with what was read last. After a failure the next call reads again. */
export function seldom<T>(everyMs: number, read: () => Promise<T>): () => Promise<T> {
  let last: { readonly answer: Promise<T>; readonly at: number } | undefined;
  return () => {
    if (last === undefined || performance.now() - last.at > everyMs) {
      last = { answer: read(), at: performance.now() };
      last.answer.catch(() => (last = undefined));
    }
    return last.answer;
  };
}

/**
 * Runs `work` every `everyMs` milliseconds and at each call of `now`, until `stop`. Two runs never overlap, however long Redis
 * does not answer. A failed run is not repeated early, nor logged: the owner of the connection logs that Redis does not answer.
 * Keeps no process alive.
 */
export function repeat(work: () => Promise<unknown>, everyMs: number) {
  let underWay: Promise<void> | undefined;
  const now = (): Promise<void> => {
    underWay ??= work()
      .then(
        () => undefined,
        () => undefined,
      )
      .finally(() => (underWay = undefined));
    return underWay;
  };
  const timer = setInterval(() => void now(), everyMs).unref();
  /** Resolves when no work is under way. */
  const stop = async (): Promise<void> => {
    clearInterval(timer);
    await underWay;
  };
  return { now, stop };
}
