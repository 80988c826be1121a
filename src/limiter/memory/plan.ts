import { causeOf } from '../cause.ts';
import type { Cause } from '../limiter.ts';
import { earlyMsOf, GRACE_MS } from '../pace.ts';
import { awake } from '../quiet.ts';
import type { Moment, Scope, Scopes } from './scope.ts';
import { newest, type Slot } from './slots.ts';

/**
 * Where the slot of an id lies: behind what was sent, behind a line, and the place of one id. The same as instants.lua and the
 * end of admit.lua.
 */

/** The slot of an id that must wait. */
export interface Place {
  readonly at: number;
  /** Reserved in its category alone, so that no id in the overall line has to wait for it. */
  readonly isHeld: boolean;
}

/** What the place of an id depends on. */
export interface Comer {
  /** Its slot, or the admission that it renews; undefined for a newcomer. */
  readonly due: number | undefined;
  /** Its category holds it back: it is not in the overall line yet. */
  readonly isHeld: boolean;
  /** It is not sent earlier than this much after now. */
  readonly leadMs: number;
}

type Nth = (scope: Scope) => readonly Pick<Slot, 'at'>[];

/**
 * The first instant, `from` or later, after a block and outside of quiet times, at which every limit has room among these slots.
 */
function firstInstant(scopes: readonly Scope[], slotsOf: Nth, moment: Moment, from: number = moment.now): number {
  const { blockedUntil = -Infinity, quiet, edgeMs } = moment;
  const ends = scopes.flatMap((scope) =>
    scope.limits.map(({ max, perMs }) => (slotsOf(scope).at(-max)?.at ?? -Infinity) + perMs),
  );
  return awake(quiet, Math.max(from, blockedUntil, ...ends), edgeMs);
}

/** The first instant that the sent slots allow. */
function earliestInstant(scopes: readonly Scope[], moment: Moment, from?: number): number {
  return firstInstant(scopes, ({ slots }) => slots.sent, moment, from);
}

/**
 * The first instant behind every reservation of a scope that still makes newcomers wait. A reservation counts at its slot, but not
 * before the earliest instant of the scope, and not before a sent slot. A held-back slot counts no earlier than the last slot in
 * line. So, from the newest to the oldest: those held back, those in line, the sent ones.
 */
function tailInstant(scope: Scope, moment: Moment, heldToo: boolean): number {
  const { sent, reserved, held } = scope.slots;
  const floor = Math.max(earliestInstant([scope], { ...moment, quiet: [] }), newest(sent) ?? 0);
  const line = queued(scope.isUrgent ? [] : reserved, moment.now).map(({ at }) => ({ at: Math.max(at, floor) }));
  const lastInLine = line.at(-1)?.at ?? floor;
  const behind = heldToo ? queued(held, moment.now).map(({ at }) => ({ at: Math.max(at, lastInLine) })) : [];
  const queue = [...line, ...behind];
  const free = firstInstant([scope], () => [...sent, ...queue], moment);
  return awake(moment.quiet, Math.max(free, queue.at(-1)?.at ?? 0), moment.edgeMs);
}

/** The instants behind the overall line and behind the category's line; without a category the first one twice. */
function tails(scopes: Scopes, moment: Moment, heldToo: boolean): readonly [line: number, own: number] {
  const [first, category] = scopes;
  const line = tailInstant(first, moment, heldToo);
  return [line, category === undefined ? line : tailInstant(category, moment, heldToo)];
}

/** The reservations that come before a newcomer. */
export function queued(reserved: readonly Slot[], now: number): readonly Slot[] {
  return reserved.filter(({ at }) => at >= now - GRACE_MS);
}

/**
 * The instant at which an id may be sent, if that is near enough; undefined if it must wait. One that comes back is sent if the
 * sent slots allow that within the tolerance: nobody's reservation is looked at. One that its category held back goes behind
 * the overall line, so that it pushes nobody there. The scopes are without the id's own slots.
 */
export function admissionAt(comer: Comer, scopes: Scopes, toleranceMs: number, moment: Moment): number | undefined {
  const { due, isHeld, leadMs } = comer;
  const { now } = moment;
  if (due === undefined) {
    const at = Math.max(...tails(scopes, moment, true));
    return at <= now + earlyMsOf(toleranceMs) ? at : undefined;
  }
  const withoutEdge = { ...moment, edgeMs: 0 }; // its slot was reserved before the edge
  const from = Math.max(now + leadMs, due);
  const free = isHeld
    ? Math.max(from, ...tails(scopes, withoutEdge, false))
    : earliestInstant(scopes, withoutEdge, from);
  const at = awake(moment.quiet, free, 0);
  return at <= from + toleranceMs ? at : undefined;
}

/**
 * The place of an id that cannot be admitted now. One that was held back joins the line if its category allows it no later than
 * one gap behind the line's end. All others go behind everybody.
 */
export function waitingPlace({ isHeld }: Pick<Comer, 'isHeld'>, scopes: Scopes, moment: Moment): Place {
  const [{ isUrgent = false, gapMs }, category] = scopes;
  if (isHeld && !isUrgent) {
    const [line, own] = tails(scopes, moment, false);
    if (own <= line + gapMs) return { at: Math.max(line, own), isHeld: false };
  }
  const [line, own] = tails(scopes, moment, true);
  if (isUrgent) return { at: Math.max(line, own), isHeld: true };
  // It is held back if its category makes it wait longer than the overall line does, or holds back others already.
  const mates = queued(category?.slots.held ?? [], moment.now);
  const isHeldBack = category !== undefined && (mates.length > 0 || own > line);
  return { at: isHeldBack ? own : line, isHeld: isHeldBack };
}

/** Why an id waits until this place, if so much quiet time counts. The scopes are without the id's own slots. */
export function waitCause(scopes: Scopes, { at, isHeld }: Place, moment: Moment, quietMs: number): Cause {
  const isBefore = ({ at: slot }: Slot): boolean => slot < at;
  const lines = scopes.map(({ limits, slots, isUrgent = false }) => ({
    limits,
    nthSent: (k: number) => slots.sent.at(-k)?.at,
    before: queued([...(isUrgent ? [] : slots.reserved), ...slots.held], moment.now).filter(isBefore).length,
  }));
  return { ...causeOf(lines, at, moment, quietMs), before: lines[isHeld ? 1 : 0]?.before ?? 0 };
}
