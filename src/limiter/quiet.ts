import { quietFaults, quietText, type QuietHours } from '../domain/quiet-hours.ts';
import type { QuietView } from './limiter.ts';
import { quietWindows, type Window } from '../domain/quiet-windows.ts';

/**
 * No slot is reserved in the last moment before a quiet time: most ids come late by less than this, and in the quiet time they
 * may not be sent.
 */
export const QUIET_EDGE_MS = 150;

/** The first instant, `at` or later, that is not quiet. Each window counts `edgeMs` longer, at its beginning. */
export function awake(windows: readonly Window[], at: number, edgeMs: number): number {
  let instant = at;
  for (const { from, until } of windows) {
    if (instant < from - edgeMs) break;
    instant = Math.max(instant, until);
  }
  return instant;
}

/** How many milliseconds between two instants are quiet. */
export function quietMsBetween(windows: readonly Window[], from: number, until: number): number {
  if (windows.length === 0) return 0;
  const parts = windows.map((window) => Math.min(window.until, until) - Math.max(window.from, from));
  return parts.reduce((sum, ms) => sum + Math.max(0, ms), 0);
}

const DAY_MS = 86_400_000;
/** Windows are computed for so long before and after now. The clock of the limiter may differ by a day. */
const BEHIND_MS = DAY_MS;
const AHEAD_MS = 10 * DAY_MS;
/** They are computed anew after this. */
const FRESH_MS = DAY_MS / 2;
/** The most texts whose windows are remembered; a worker sees as many as its recipients have different quiet hours. */
const MOST_TEXTS = 10_000;

/** The windows of quiet hours around now. */
export interface Quiet {
  readonly windows: readonly Window[];
  /** The same for admit.lua: `from until from until`. */
  readonly text: string;
}

export interface QuietClock {
  /** The windows around `now`; computed at most twice a day. */
  of(hours: QuietHours, now: number): Quiet;
  /** The same for quiet hours that are written as JSON. */
  ofText(text: string, now: number): Quiet;
}

/** Text that is not usable was not written by pushpacer: no time is quiet then, so that its recipient still gets alerts. */
function windowsOf(text: string, now: number): Window[] {
  const hours = JSON.parse(text) as QuietHours;
  return quietFaults(hours).length > 0 ? [] : quietWindows(hours, now - BEHIND_MS, now + AHEAD_MS);
}

export function createQuietClock(): QuietClock {
  const known = new Map<string, Quiet & { readonly at: number }>();

  function ofText(text: string, now: number): Quiet {
    const before = known.get(text);
    if (before !== undefined && Math.abs(now - before.at) < FRESH_MS) return before;
    const windows = windowsOf(text, now);
    const quiet = { at: now, windows, text: windows.map(({ from, until }) => `${from} ${until}`).join(' ') };
    known.delete(text);
    known.set(text, quiet);
    const [oldest] = known.keys();
    if (known.size > MOST_TEXTS && oldest !== undefined) known.delete(oldest);
    return quiet;
  }

  const texts = new WeakMap<QuietHours, string>();
  return {
    ofText,
    of(hours, now) {
      const text = texts.get(hours) ?? quietText(hours);
      texts.set(hours, text);
      return ofText(text, now);
    },
  };
}

/** A refusal with the time until the quiet time ends that is now; every other answer as it is. */
export function withQuietMs<Answer extends { readonly kind: string }>(
  answer: Answer,
  windows: readonly Window[],
  now: number,
): Answer {
  if (windows.length === 0 || answer.kind !== 'refused') return answer;
  const quietMs = awake(windows, now, 0) - now;
  return quietMs > 0 ? { ...answer, quietMs } : answer;
}

/** The quiet hours in force, and the end of the quiet time that is now. */
export function quietView(hours: QuietHours, isStored: boolean, windows: readonly Window[], now: number): QuietView {
  const until = awake(windows, now, 0);
  return { hours, source: isStored ? 'stored' : 'limiter', ...(until > now && { until }) };
}
