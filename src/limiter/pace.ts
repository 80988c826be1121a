import { InputError } from '../domain/faults.ts';
import { CATEGORY_FIELDS, policyFaults, ruleName, type Policy } from '../domain/limits.ts';
import { quietFaults, quietText, type QuietHours, quietWindows, type Window } from '../domain/quiet-hours.ts';
import type { Cause } from './limiter.ts';

/** At most `max` slots in any window of `perMs`. The gap is a limit too, with max 1. */
export interface Limit {
  readonly name: string;
  readonly max: number;
  readonly perMs: number;
}

/** A policy as the limiters use it: checked, with the gap as one of the limits, and with its tolerance. */
export interface Pace {
  readonly limits: readonly Limit[];
  /**
   * The tolerance: how long after its slot an id may be sent without losing the slot. It is most of the gap (of the shortest
   * window if there is no gap): no other id comes back in that time, so a late send loses nothing. With the whole gap or more,
   * all ids that wake at the same instant would be sent, and each would make the line later by a gap.
   */
  readonly toleranceMs: number;
  /** The longest window or gap, in milliseconds: older sent slots do not count any more. */
  readonly longestMs: number;
}

/** The tolerance is at most this share of the gap. */
const LATE_SHARE = 0.9;
/** The longest tolerance. It is bounded, since the ids behind a late id sleep in their workers until that id is sent. */
const MAX_TOLERANCE_MS = 2_000;
/** An id may come back at most this long before its slot. Then it sleeps in its worker until the slot. */
export const MAX_EARLY_MS = 120;
/** Newcomers wait behind an overdue reservation for this long, which is the longest tolerance. */
export const GRACE_MS = 2_000;
/** A reservation that is overdue by more than this is a no-show, and forgotten: its job was removed, or its worker died. */
export const NO_SHOW_MS = 60_000;
/** A sent slot further ahead of now than the longest window plus this is damage: the clock was set back since. */
export const CLOCK_STEP_MS = 60_000;
/**
 * How long before its slot an id may come back, and how far ahead a newcomer is admitted. Less than half the gap, so that no id
 * overtakes another one.
 */
export function earlyMsOf(toleranceMs: number): number {
  return Math.min(Math.floor(toleranceMs / 2), MAX_EARLY_MS);
}

const paces = new WeakMap<Policy, Pace>();

/** Throws InputError with every fault of the policy, which may be a category's. */
export function paceOf(policy: Policy): Pace {
  const known = paces.get(policy);
  if (known !== undefined) return known;
  const faults = policyFaults(policy, 'policy', CATEGORY_FIELDS);
  if (faults.length > 0) throw new InputError('unusable policy', faults);
  const pace = workOut(policy);
  paces.set(policy, pace);
  return pace;
}

/** The limits of a policy under their names in answers: in a category `messages:10/1m`. */
export function limitsOf(policy: Policy, category: string | undefined): readonly Limit[] {
  const { limits } = paceOf(policy);
  return category === undefined ? limits : limits.map((limit) => ({ ...limit, name: `${category}:${limit.name}` }));
}

/** The limits that hold when a stored policy has ended. */
export interface LaterLimits {
  /** Epoch milliseconds. */
  readonly from: number;
  readonly limits: readonly Limit[];
}

/**
 * The first instant, `from` or later, at which the limits have room for one more slot; from `later.from` on, the later limits
 * count. `instants`: the slots that are taken, oldest first. As `firstInstant` in instants.lua.
 */
export function freeFrom(
  from: number,
  { limits, later }: { readonly limits: readonly Limit[]; readonly later?: LaterLimits | undefined },
  instants: readonly number[],
): number {
  const free = (among: readonly Limit[], start: number): number =>
    Math.max(start, ...among.map(({ max, perMs }) => (instants.at(-max) ?? -Infinity) + perMs));
  const at = free(limits, from);
  return later === undefined || at < later.from ? at : free(later.limits, Math.max(from, later.from));
}

function workOut({ rules, minGapMs }: Policy): Pace {
  const gap: Limit[] = minGapMs > 0 ? [{ name: 'gap', max: 1, perMs: minGapMs }] : [];
  const limits = [...gap, ...rules.map((rule) => ({ ...rule, name: ruleName(rule) }))];
  const windows = limits.map(({ perMs }) => perMs);
  const spacingMs = minGapMs > 0 ? minGapMs : Math.min(...windows);
  return {
    limits,
    toleranceMs: Math.floor(Math.min(LATE_SHARE * spacingMs, MAX_TOLERANCE_MS)),
    longestMs: Math.max(0, ...windows),
  };
}

/** No slot is reserved this close before a quiet time. Most ids are late by less, and in quiet time they may not be sent. */
export const QUIET_EDGE_MS = 150;

/** The first instant, `at` or later, that is not quiet. Each window begins `edgeMs` earlier. */
export function awake(windows: readonly Window[], at: number, edgeMs: number): number {
  let instant = at;
  for (const { from, until } of windows) {
    if (instant < from - edgeMs) break;
    instant = Math.max(instant, until);
  }
  return instant;
}

export function quietMsBetween(windows: readonly Window[], from: number, until: number): number {
  if (windows.length === 0) return 0;
  const parts = windows.map((window) => Math.min(window.until, until) - Math.max(window.from, from));
  return parts.reduce((sum, ms) => sum + Math.max(0, ms), 0);
}

/** How much of a wait until `at` counts for `maxWaitMs`: neither quiet time nor the time of a block. Milliseconds. */
export function countedWaitMs(at: number, { now, blockedUntil = now, quiet }: Moment): number {
  const from = Math.min(blockedUntil, at);
  return at - from - quietMsBetween(quiet, from, at);
}

const DAY_MS = 86_400_000;
/** For how long before and after now quiet times are computed. The limiter's clock may differ by a day. */
const BEHIND_MS = DAY_MS;
const AHEAD_MS = 10 * DAY_MS;
/** The quiet times are computed anew after this. */
const FRESH_MS = DAY_MS / 2;
/** At most this many quiet hours, as JSON, are remembered with their windows. */
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
  /** As `of`, for quiet hours that are written as JSON. */
  ofText(text: string, now: number): Quiet;
}

/** Text that is not usable was not written by pushpacer. Then no time is quiet, so that the recipient still gets alerts. */
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

/** A field of a refusal: if it is quiet now, the milliseconds until this quiet time ends. */
export function quietLeft(windows: readonly Window[], now: number): { readonly quietMs?: number } {
  const quietMs = awake(windows, now, 0) - now;
  return quietMs > 0 ? { quietMs } : {};
}

/** What makes an id wait in one scope. */
interface WaitIn {
  readonly limits: readonly Limit[];
  readonly later?: LaterLimits | undefined;
  /** The sent slots, oldest first. */
  readonly sent: readonly { readonly at: number }[];
  /** How many ids are before this id here. */
  readonly before: number;
}

/** The causes of a wait that are not limits. */
export interface Moment {
  readonly now: number;
  /** Absent if the recipient is not blocked now. */
  readonly blockedUntil: number | undefined;
  /** The quiet times around now. */
  readonly quiet: readonly Window[];
}

/** The longest cause of a wait, besides quiet times. */
interface OtherCause extends Pick<Cause, 'rule' | 'ruleUntil'> {
  /** Until when this cause alone would make the id wait. */
  readonly till: number;
}

/**
 * The longest cause of a wait until `at`, besides quiet times, as `causeOf` in instants.lua: the block, or the limit that alone
 * would make the id wait longest behind the ids before it. The first limit if nothing makes it wait.
 */
export function causeBesidesQuiet(
  scopes: readonly WaitIn[],
  at: number,
  { now, blockedUntil }: Omit<Moment, 'quiet'>,
): OtherCause {
  let rule: string | undefined;
  let until = now;
  for (const { limits, later, sent, before } of scopes) {
    const longest = (among: readonly Limit[]): { readonly name?: string; readonly alone: number } => {
      const ends = among.map(({ name, max, perMs }) => {
        const slotBefore = Math.max(sent.at((before % max) - max)?.at ?? -Infinity, now - perMs);
        return { name, alone: slotBefore + perMs * (1 + Math.floor(before / max)) };
      });
      return ends.reduce((slower, other) => (other.alone > slower.alone ? other : slower), { alone: -Infinity });
    };
    let { name, alone } = longest(limits);
    if (later !== undefined && alone >= later.from) {
      const after = longest(later.limits);
      if (after.alone > later.from) ({ name, alone } = after);
      else alone = later.from;
    }
    if (name !== undefined && (rule === undefined || alone > until)) [rule, until] = [name, alone];
  }
  const isBlock = blockedUntil !== undefined && Math.min(blockedUntil, at) >= until;
  if (isBlock) return { rule: 'block', ruleUntil: blockedUntil, till: Math.min(blockedUntil, at) };
  return { rule: rule ?? 'none', till: until };
}

/**
 * The longest cause of a wait until `at`, quiet times included.
 *
 * @param quietMs how much quiet time counts; default: all quiet time until `at`
 */
export function causeOf(
  { till, ...other }: OtherCause,
  at: number,
  { now, quiet }: Pick<Moment, 'now' | 'quiet'>,
  quietMs = quietMsBetween(quiet, now, at),
): Pick<Cause, 'rule' | 'ruleUntil'> {
  return quietMs > till - now ? quietCause(quiet, at) : other;
}

/**
 * Whether quiet time is why an id waits; false if the wait has another cause and only contains a quiet time. `till`: until when
 * the id would wait without quiet times. As `waitsForQuiet` in admit.lua.
 */
export function waitsForQuiet(
  quietMs: number,
  till: number,
  { now, quiet, edgeMs }: Pick<Moment, 'now' | 'quiet'> & { readonly edgeMs: number },
): boolean {
  return awake(quiet, now, 0) > now || awake(quiet, till, edgeMs) > till || quietMs > till - now;
}

/** The cause `quiet`, with the end of the last quiet time that begins before the slot. */
export function quietCause(quiet: readonly Window[], at: number): Pick<Cause, 'rule' | 'ruleUntil'> {
  const ruleUntil = quiet.findLast(({ from }) => from < at)?.until;
  return { rule: 'quiet', ...(ruleUntil !== undefined && { ruleUntil }) };
}
