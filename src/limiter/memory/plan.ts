import { GRACE_MS, type Limit } from '../pace.ts';
import { awake } from '../quiet.ts';
import type { Moment, Scope } from './scope.ts';
import { newest, type Slot } from './slots.ts';

/** An instant, and what decides it: the name of a limit, `block` or `none`. */
export interface Instant {
  readonly at: number;
  readonly rule: string;
}

/** Limits, and the slots that count for them, oldest first. */
export interface Taken {
  readonly limits: readonly Limit[];
  readonly slots: readonly Pick<Slot, 'at'>[];
}

/** The same, or the end of the quiet time that it lies in. */
function afterQuiet(instant: Instant, { quiet, edgeMs }: Moment): Instant {
  const at = awake(quiet, instant.at, edgeMs);
  return at > instant.at ? { at, rule: 'quiet' } : instant;
}

/** The same moment, but a slot may lie just before a quiet time: for an id whose slot was reserved before it. */
export function withoutEdge(moment: Moment): Moment {
  return { ...moment, edgeMs: 0 };
}

/** The first instant after a block and outside of quiet times at which every limit has room. If several limits forbid an earlier one, the first decides. */
export function firstInstant(scopes: readonly Taken[], moment: Moment): Instant {
  const { now, blockedUntil } = moment;
  const first = scopes.find(({ limits }) => limits.length > 0)?.limits[0];
  let deciding = { at: now - 1, rule: first?.name ?? 'none' };
  if (blockedUntil !== undefined) deciding = { at: blockedUntil, rule: 'block' };
  for (const { limits, slots } of scopes) {
    for (const { name, max, perMs } of limits) {
      const at = (slots.at(-max)?.at ?? -Infinity) + perMs;
      if (at > deciding.at) deciding = { at, rule: name };
    }
  }
  return afterQuiet({ ...deciding, at: Math.max(now, deciding.at) }, moment);
}

/** The first instant that the sent slots allow. */
export function earliestInstant(scopes: readonly Scope[], moment: Moment): Instant {
  return firstInstant(
    scopes.map(({ limits, slots }) => ({ limits, slots: slots.sent })),
    moment,
  );
}

/**
 * The first instant behind every reservation of a scope that still makes newcomers wait. A reservation counts at its slot, but no
 * earlier than (the earliest instant of the scope - tolerance), since an id with an older slot would be late by then, and not
 * before a sent slot. A held-back slot counts no earlier than the last slot in line. So, from the newest to the oldest: those
 * held back, those in line, the sent ones.
 */
export function tailInstant(scope: Scope, holdMs: number, moment: Moment, heldToo: boolean): Instant {
  const { sent, reserved, held } = scope.slots;
  const floor = Math.max(earliestInstant([scope], { ...moment, quiet: [] }).at - holdMs, newest(sent) ?? 0);
  const line = queued(scope.isUrgent ? [] : reserved, moment.now).map(({ at }) => ({ at: Math.max(at, floor) }));
  const lastInLine = line.at(-1)?.at ?? floor;
  const behind = heldToo ? queued(held, moment.now).map(({ at }) => ({ at: Math.max(at, lastInLine) })) : [];
  const queue = [...line, ...behind];
  const free = firstInstant([{ limits: scope.limits, slots: [...sent, ...queue] }], moment);
  return afterQuiet({ ...free, at: Math.max(free.at, queue.at(-1)?.at ?? 0) }, moment);
}

/** The reservations that come before a newcomer. */
export function queued(reserved: readonly Slot[], now: number): readonly Slot[] {
  return reserved.filter(({ at }) => at >= now - GRACE_MS);
}

/** Limits, and the instants that count for them, oldest first. */
export interface Filled {
  readonly limits: readonly Limit[];
  readonly instants: readonly number[];
}

/**
 * The first instant, `from` or later, that may be added in all scopes: no window around it then has more than its limit allows,
 * with the later instants counted too. And the limit that forbids an earlier instant.
 */
export function firstFit(scopes: readonly Filled[], from: number, moment: Omit<Moment, 'now'>): Instant {
  const { blockedUntil = -Infinity, quiet, edgeMs } = moment;
  const checks = scopes.flatMap(({ limits, instants }) => limits.map((limit) => ({ limit, instants })));
  let at = Math.max(from, blockedUntil);
  for (let before = NaN; at !== before;) {
    before = at;
    for (const { limit, instants } of checks) at = nextFit(limit, instants, at);
    at = awake(quiet, at, edgeMs);
  }
  if (at - 1 < blockedUntil) return { at, rule: 'block' };
  if (awake(quiet, at - 1, edgeMs) > at - 1) return { at, rule: 'quiet' };
  const deciding = checks.find(({ limit, instants }) => nextFit(limit, instants, at - 1) > at - 1) ?? checks[0];
  return { at, rule: deciding?.limit.name ?? 'none' };
}

/** `at` if this limit allows one more there, else a later instant; the limit allows none between the two. */
function nextFit({ max, perMs }: Limit, instants: readonly number[], at: number): number {
  const behind = instants.findLastIndex((instant) => instant <= at) + 1;
  const ahead = instants.length - behind;
  const oldest = instants[behind - max];
  if (oldest !== undefined && oldest + perMs > at) return oldest + perMs;
  // A window that is full already and has `at` inside.
  for (let count = Math.min(max - 1, ahead); count > 0; count -= 1) {
    const last = instants[behind + count - 1] ?? Infinity;
    const first = instants[behind + count - max];
    if (first !== undefined && last - first < perMs) return last;
  }
  if (ahead >= max && (instants[behind + max - 1] ?? Infinity) - at < perMs) return instants[behind] ?? at;
  return at;
}
