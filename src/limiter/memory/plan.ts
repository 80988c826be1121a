import { GRACE_MS, type Limit } from '../pace.ts';
import type { Moment, Scope } from './scope.ts';
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
 * The first instant behind every reservation of a scope that is still waited for. A reservation counts at its slot, but no
 * earlier than the hold before the earliest instant that its scope allows, where it would no longer be on time, nor before
 * a slot that was sent; what a category holds back counts behind its last one in line. So all of them are the newest of
 * all, in this order.
 */
export function tailInstant(scope: Scope, holdMs: number, moment: Moment, heldToo: boolean): Instant {
  const { sent, reserved, held } = scope.slots;
  const floor = Math.max(earliestInstant([scope], moment).at - holdMs, newest(sent) ?? 0);
  const line = queued(reserved, moment.now).map(({ at }) => ({ at: Math.max(at, floor) }));
  const lastInLine = line.at(-1)?.at ?? floor;
  const behind = heldToo ? queued(held, moment.now).map(({ at }) => ({ at: Math.max(at, lastInLine) })) : [];
  const queue = [...line, ...behind];
  const free = firstInstant([{ limits: scope.limits, slots: [...sent, ...queue] }], moment);
  return { ...free, at: Math.max(free.at, queue.at(-1)?.at ?? 0) };
}

/** The reservations that a newcomer stands behind. */
export function queued(reserved: readonly Slot[], now: number): readonly Slot[] {
  return reserved.filter(({ at }) => at >= now - GRACE_MS);
}
