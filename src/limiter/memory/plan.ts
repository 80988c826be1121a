import { GRACE_MS, type Limit } from '../pace.ts';
import type { Moment, Scope, Scopes } from './scope.ts';
import { newest, type Slot } from './slots.ts';

/** An instant, and the name of what decides it: a limit, `block`, or `none`. */
export interface Instant {
  readonly at: number;
  readonly rule: string;
}

/** Limits, and the slots that count for them, oldest first. */
export interface Taken {
  readonly limits: readonly Limit[];
  readonly slots: readonly Pick<Slot, 'at'>[];
}

/** The first instant at which every limit has room and nothing blocks; of several that allow no earlier one, the first decides. */
export function firstInstant(scopes: readonly Taken[], { now, blockedUntil }: Moment): Instant {
  const first = scopes.find(({ limits }) => limits.length > 0)?.limits[0];
  let deciding = { at: now - 1, rule: first?.name ?? 'none' };
  if (blockedUntil !== undefined) deciding = { at: blockedUntil, rule: 'block' };
  for (const { limits, slots } of scopes) {
    for (const { name, max, perMs } of limits) {
      const at = (slots.at(-max)?.at ?? -Infinity) + perMs;
      if (at > deciding.at) deciding = { at, rule: name };
    }
  }
  return { ...deciding, at: Math.max(now, deciding.at) };
}

/** The first instant that what was sent allows. */
export function earliestInstant(scopes: readonly Scope[], moment: Moment): Instant {
  return firstInstant(
    scopes.map(({ limits, slots }) => ({ limits, slots: slots.sent })),
    moment,
  );
}

/**
 * The first instant behind every reservation that is still waited for. A reservation counts at its slot, but no earlier
 * than the hold before the earliest instant that its scope allows, where it would no longer be on time, nor before a
 * slot that was sent: so those queued are the newest of all, in this order. Its scope, and not all of the ask's: what
 * is reserved overall need not have the category of this ask.
 */
export function tailInstant(scopes: readonly Scope[], holdMs: number, moment: Moment): Instant {
  let last = 0;
  const taken = scopes.map((scope): Taken => {
    const { sent, reserved } = scope.slots;
    const floor = Math.max(earliestInstant([scope], moment).at - holdMs, newest(sent) ?? 0);
    const queue = queued(reserved, moment.now).map(({ at }) => ({ at: Math.max(at, floor) }));
    last = Math.max(last, queue.at(-1)?.at ?? 0);
    return { limits: scope.limits, slots: [...sent, ...queue] };
  });
  const free = firstInstant(taken, moment);
  return { ...free, at: Math.max(free.at, last) };
}

/**
 * When an id goes whose category held it back until now: behind the overall line, as a newcomer would, and behind those
 * of its category whose slots come before its own.
 */
export function joinInstant(scopes: Scopes, slot: number, holdMs: number, moment: Moment): Instant {
  const [line, ...inCategory] = scopes;
  const tail = tailInstant([line], holdMs, moment);
  const before = inCategory.map((scope) => ({
    ...scope,
    slots: { ...scope.slots, reserved: scope.slots.reserved.filter(({ at }) => at < slot) },
  }));
  const allowed = tailInstant(before, holdMs, moment);
  return allowed.at > tail.at ? allowed : tail;
}

/** Whether the category holds back one of those with the latest slot: then it holds back whoever comes behind them. */
export function hasHeld([line, category]: Scopes, now: number): boolean {
  if (category === undefined) return false;
  const queue = queued(category.slots.reserved, now);
  const latest = newest(queue);
  const inLine = new Set(line.slots.reserved.map(({ id }) => id));
  return queue.some(({ id, at }) => at === latest && !inLine.has(id));
}

/** The reservations that a newcomer stands behind. */
export function queued(reserved: readonly Slot[], now: number): readonly Slot[] {
  return reserved.filter(({ at }) => at >= now - GRACE_MS);
}
