import { DAYS, minutesOf, type QuietHours, type QuietTime } from './quiet-hours.ts';

/** Instants from `from` (included) to `until` (not included), in epoch milliseconds. */
export interface Window {
  readonly from: number;
  readonly until: number;
}

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** How far apart the offset of a time zone is looked up. No zone has changed its clock twice within this time. */
const STEP_MS = 6 * 3_600_000;

/**
 * The quiet instants between `from` and `until`: windows in their order that do not touch. An instant is quiet if the clock of the
 * time zone shows a quiet time then. So where the clock is changed, a quiet time may be an hour shorter or longer, as it is
 * for the person who looks at that clock.
 */
export function quietWindows({ timezone, quietHours }: QuietHours, from: number, until: number): Window[] {
  if (quietHours.length === 0) return [];
  const found = stretches(timezone, from, until).flatMap((stretch) => {
    const shown = { from: stretch.from + stretch.offsetMs, until: stretch.until + stretch.offsetMs };
    return quietHours
      .flatMap((time) => onClock(time, shown))
      .map((window) => ({ from: window.from - stretch.offsetMs, until: window.until - stretch.offsetMs }));
  });
  return joined(found);
}

/** A stretch of time in which a zone's clock is not changed: it shows UTC plus the offset. */
interface Stretch extends Window {
  readonly offsetMs: number;
}

function stretches(timezone: string, from: number, until: number): Stretch[] {
  const offsetAt = offsets(timezone);
  const found: Stretch[] = [];
  let [begin, offsetMs] = [from, offsetAt(from)];
  for (let at = from; at < until;) {
    const next = Math.min(at + STEP_MS, until);
    if (offsetAt(next) === offsetMs) {
      at = next;
      continue;
    }
    at = firstChange(offsetAt, at, next);
    found.push({ from: begin, until: at, offsetMs });
    [begin, offsetMs] = [at, offsetAt(at)];
  }
  found.push({ from: begin, until, offsetMs });
  return found;
}

/** The first instant after `before` that has another offset. */
function firstChange(offsetAt: (at: number) => number, before: number, after: number): number {
  const offsetMs = offsetAt(before);
  let [low, high] = [before, after];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(middle) === offsetMs) low = middle;
    else high = middle;
  }
  return high;
}

/** How far the clock of a zone is ahead of UTC, in milliseconds. */
function offsets(timeZone: string): (at: number) => number {
  const format = new Intl.DateTimeFormat('en-u-ca-iso8601', {
    timeZone,
    hourCycle: 'h23',
    ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
    ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
  });
  return (at) => {
    const parts = new Map(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    const part = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? 0;
    const shown = Date.UTC(
      ...([part('year'), part('month') - 1, part('day')] as const),
      ...([part('hour'), part('minute'), part('second')] as const),
    );
    return shown - Math.floor(at / 1_000) * 1_000;
  };
}

/** The windows of one quiet time on a clock that is never changed, cut to `shown`. */
function onClock({ days = DAYS, from, until }: QuietTime, shown: Window): Window[] {
  const [first, last] = [minutesOf(from) * MINUTE_MS, minutesOf(until) * MINUTE_MS];
  const lengthMs = last > first ? last - first : last + DAY_MS - first;
  const found: Window[] = [];
  for (let day = Math.floor(shown.from / DAY_MS) - 1; day * DAY_MS < shown.until; day += 1) {
    const name = DAYS[new Date(day * DAY_MS).getUTCDay()];
    if (name === undefined || !days.includes(name)) continue;
    const begin = day * DAY_MS + first;
    const window = { from: Math.max(begin, shown.from), until: Math.min(begin + lengthMs, shown.until) };
    if (window.from < window.until) found.push(window);
  }
  return found;
}

function joined(windows: readonly Window[]): Window[] {
  const found: Window[] = [];
  for (const window of windows.toSorted((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last === undefined || window.from > last.until) found.push(window);
    else found[found.length - 1] = { from: last.from, until: Math.max(last.until, window.until) };
  }
  return found;
}
