import { didYouMean, type Fault, faultOf, nearest, unknownFields } from './faults.ts';
import { isObject } from './json.ts';

/** A day of the week, as quiet hours name it. */
export type Day = 'sun' | 'mon' | 'tue' | 'wed' | 'thu' | 'fri' | 'sat';

/** A part of a day in which no alert is shown. */
export interface QuietTime {
  /** The days on which the quiet time begins. Default: every day. */
  readonly days?: readonly Day[] | undefined;
  /** When the quiet time begins: `21:00`, on the clock of the time zone. */
  readonly from: string;
  /** When the quiet time ends: `07:00`. If this is before `from`, it ends on the next day. `24:00` is the end of the day. */
  readonly until: string;
}

/** When a recipient gets no alerts, on the clock of a time zone. */
export interface QuietHours {
  /** A name of the IANA time zone database, such as `Europe/Paris`. */
  readonly timezone: string;
  /** At most 50 quiet times; all apply. If there are none, no time is quiet. */
  readonly quietHours: readonly QuietTime[];
}

/** The days in the order of `Date.getUTCDay`. */
export const DAYS: readonly Day[] = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
const MOST_TIMES = 50;
const DAY_MINUTES = 24 * 60;
const WEEK_MINUTES = 7 * DAY_MINUTES;
const BEGIN = /^(?:[01]\d|2[0-3]):[0-5]\d$/;

/** Every fault of a value that should be quiet hours. The path of each fault begins with `path`. */
export function quietFaults(value: unknown, path = ''): Fault[] {
  if (!isObject(value)) return [faultOf(path, 'an object', value)];
  const { timezone, quietHours: times } = value;
  const at = (name: string) => (path === '' ? name : `${path}.${name}`);
  const faults = [...unknownFields(value, ['timezone', 'quietHours'], path), ...zoneFaults(timezone, at('timezone'))];
  if (!Array.isArray(times) || times.length > MOST_TIMES) {
    return [...faults, faultOf(at('quietHours'), `an array of at most ${MOST_TIMES} quiet times`, times)];
  }
  const ofTimes = times.flatMap((time: unknown, index) => timeFaults(time, `${at('quietHours')}[${index}]`));
  if (ofTimes.length === 0 && isAlways(times as readonly QuietTime[])) {
    ofTimes.push({ path: at('quietHours'), expected: 'some time in the week that is not quiet', found: 'none' });
  }
  return [...faults, ...ofTimes];
}

function zoneFaults(zone: unknown, path: string): Fault[] {
  if (typeof zone === 'string' && isZone(zone)) return [];
  const near = typeof zone === 'string' ? nearest(zone, Intl.supportedValuesOf('timeZone')) : undefined;
  return [faultOf(path, `a time zone such as Europe/Paris${didYouMean(near)}`, zone)];
}

function isZone(timeZone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

function timeFaults(time: unknown, path: string): Fault[] {
  if (!isObject(time)) return [faultOf(path, 'an object', time)];
  const { days, from, until } = time;
  const faults = [...unknownFields(time, ['days', 'from', 'until'], path), ...daysFaults(days, `${path}.days`)];
  if (!isTime(from)) faults.push(faultOf(`${path}.from`, 'a time from 00:00 to 23:59', from));
  if (!isTime(until) && until !== '24:00') faults.push(faultOf(`${path}.until`, 'a time from 00:00 to 24:00', until));
  if (isTime(from) && from === until) {
    faults.push(faultOf(`${path}.until`, 'another time than from (for a whole day: from 00:00 until 24:00)', until));
  }
  return faults;
}

function isTime(value: unknown): value is string {
  return typeof value === 'string' && BEGIN.test(value);
}

function daysFaults(days: unknown, path: string): Fault[] {
  if (days === undefined) return [];
  if (!Array.isArray(days) || days.length === 0 || days.length > DAYS.length) {
    return [faultOf(path, 'an array of 1 to 7 days', days)];
  }
  return days.flatMap((day: unknown, index) => {
    if (DAYS.some((known) => known === day)) return [];
    const near = typeof day === 'string' ? meantDay(day) : undefined;
    return [faultOf(`${path}[${index}]`, `mon, tue, wed, thu, fri, sat or sun${didYouMean(near)}`, day)];
  });
}

/** `Monday` → `mon`, `tus` → `tue` */
export function meantDay(text: string): Day | undefined {
  const given = text.toLowerCase();
  const begun = DAYS.find((day) => given.length >= 3 && given.startsWith(day));
  return begun ?? (nearest(given, DAYS) as Day | undefined);
}

/** Whether every minute of the week is quiet. */
function isAlways(times: readonly QuietTime[]): boolean {
  const isQuiet = new Uint8Array(WEEK_MINUTES);
  for (const { days = DAYS, ...time } of times) {
    const { first, minutes } = spanOf(time);
    for (const day of days) {
      const begin = DAYS.indexOf(day) * DAY_MINUTES + first;
      for (let minute = begin; minute < begin + minutes; minute += 1) isQuiet[minute % WEEK_MINUTES] = 1;
    }
  }
  return isQuiet.every((minute) => minute === 1);
}

/** The minute of the day at which a quiet time begins, and how many minutes it lasts. */
function spanOf({ from, until }: QuietTime): { readonly first: number; readonly minutes: number } {
  const [first, last] = [minutesOf(from), minutesOf(until)];
  return { first, minutes: last > first ? last - first : last + DAY_MINUTES - first };
}

/** `"07:30"` → 450, the minutes since midnight. */
function minutesOf(time: string): number {
  return Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
}

/** The quiet hours as a text. The same quiet hours always give the same text: the fields in a fixed order, and nothing else. */
export function quietText({ timezone, quietHours }: QuietHours): string {
  const times = quietHours.map(({ days, from, until }) => ({ ...(days !== undefined && { days }), from, until }));
  return JSON.stringify({ timezone, quietHours: times });
}

/** For people: `mon,tue 21:00-07:00, 13:00-14:00, Europe/Paris` */
export function quietHoursText({ timezone, quietHours }: QuietHours): string {
  if (quietHours.length === 0) return 'none';
  const times = quietHours.map(({ days, from, until }) => {
    const time = `${from}-${until}`;
    return days === undefined || days.length === DAYS.length ? time : `${days.join(',')} ${time}`;
  });
  return [...times, timezone].join(', ');
}

/** Instants from `from` (included) to `until` (not included), in epoch milliseconds. */
export interface Window {
  readonly from: number;
  readonly until: number;
}

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** The offset of a time zone is looked up in steps of this length. No zone has changed its clock twice within this time. */
const STEP_MS = 6 * 3_600_000;

/**
 * The quiet instants between `from` and `until`, as windows in order that do not touch. An instant is quiet if the clock of the
 * time zone then shows a quiet time. So a clock change may make a quiet time an hour shorter or longer.
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

/** A time in which the clock of a zone is not changed: it shows UTC plus `offsetMs`. */
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

/** The first instant with another offset than `before`: later than `before`, at the latest `after`. */
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

/** The windows of one quiet time within `shown`, on a clock that is never changed. */
function onClock({ days = DAYS, ...time }: QuietTime, shown: Window): Window[] {
  const { first, minutes } = spanOf(time);
  const found: Window[] = [];
  for (let day = Math.floor(shown.from / DAY_MS) - 1; day * DAY_MS < shown.until; day += 1) {
    const name = DAYS[new Date(day * DAY_MS).getUTCDay()];
    if (name === undefined || !days.includes(name)) continue;
    const begin = day * DAY_MS + first * MINUTE_MS;
    const window = { from: Math.max(begin, shown.from), until: Math.min(begin + minutes * MINUTE_MS, shown.until) };
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
