import type { Admission, Admitted, Ask, Cause, Refused, RuleStanding, Standing } from '../limiter.ts';
import { earlyMsOf, type Limit } from '../pace.ts';
import { quietMsBetween, withQuietMs } from '../quiet.ts';
import { admissionAt, queued, waitCause, waitingPlace, type Comer, type Place } from './plan.ts';
import type { Moment, Scope, Scopes } from './scope.ts';
import { including, marked, timeOf, withoutId, withoutOldMarks, type Slot, type Slots } from './slots.ts';

/** The answer to an ask, and the scopes after it if they change. */
export interface Decision {
  readonly admission: Admission;
  readonly after?: readonly Scope[];
}

/** The algorithm of docs/limiter.md on slots in memory; admit.lua is the same for slots in Redis. */
export function decide(ask: Ask, scopes: Scopes, moment: Moment, countBlocked: boolean): Decision {
  const { id, renew = false, leadMs = 0 } = ask;
  const { now } = moment;
  const common = commonOf(scopes);
  const { toleranceMs } = common;
  const told = (among: Scopes): Common => (ask.everyRule ? { ...common, rules: everyRule(among, now) } : common);
  const [overall, category] = scopes;
  const sentAt = timeOf(overall.slots.sent, id);
  const inLine = timeOf(overall.slots.reserved, id);
  const heldAt = category && timeOf(category.slots.held, id);
  const slot = inLine ?? heldAt;
  if (sentAt !== undefined && !renew) {
    return { admission: admitted(sentAt, { ...standingOf(scopes, now), ...told(scopes) }, now, true) };
  }

  const others = each(scopes, (slots) => withoutId(slots, id));
  if (slot !== undefined && slot > now + earlyMsOf(toleranceMs)) {
    const place = { at: slot, isHeld: inLine === undefined };
    const { because, quietMs } = refusal(ask, slot, moment, undefined);
    return { admission: waiting(place, waitCause(others, place, moment, quietMs), because, told(others), moment) };
  }

  const comer: Comer = {
    due: slot ?? sentAt,
    isHeld: inLine === undefined && heldAt !== undefined,
    leadMs: Math.ceil(leadMs),
  };
  const at = admissionAt(comer, others, toleranceMs, moment);
  if (at !== undefined) {
    const after = each(others, (slots) => ({ ...slots, sent: including(slots.sent, { id, at }) }));
    return { admission: admitted(at, { ...standingOf(after, now), ...told(after) }, now, false), after };
  }

  const before = countBlocked ? each(others, (slots) => marked(slots, id, now)) : others;
  const place = waitingPlace(comer, before, moment);
  const pending = comer.due === undefined ? longestQueue(scopes, now) : undefined;
  const { because, quietMs } = refusal(ask, place.at, moment, pending);
  const admission = waiting(place, waitCause(before, place, moment, quietMs), because, told(others), moment);
  if (because !== undefined && !countBlocked) return { admission };
  const after = because === undefined ? reserved(before, id, place) : each(scopes, (slots) => marked(slots, id, now));
  return { admission, after: countBlocked ? eachScope(after, trimmed) : after };
}

function trimmed({ limits, allLimits = limits, slots }: Scope): Slots {
  return withoutOldMarks(slots, Math.max(1, ...allLimits.map(({ max }) => max)));
}

/** In line: in every scope. Held back: in the category alone. */
function reserved(scopes: Scopes, id: string, { at, isHeld }: Place): Scopes {
  if (!isHeld) return each(scopes, (slots) => ({ ...slots, reserved: including(slots.reserved, { id, at }) }));
  return eachScope(scopes, ({ category, slots }) =>
    category === undefined ? slots : { ...slots, held: including(slots.held, { id, at }) },
  );
}

/** The part of an answer that depends on the policies alone. */
type Common = Pick<Standing, 'toleranceMs' | 'gapMs' | 'rules'>;

function commonOf(scopes: Scopes): Common {
  return {
    toleranceMs: Math.min(...scopes.map(({ toleranceMs }) => toleranceMs)),
    gapMs: Math.max(...scopes.map(({ gapMs }) => gapMs)),
  };
}

function each(scopes: Scopes, change: (slots: Slots) => Slots): Scopes {
  return eachScope(scopes, ({ slots }) => change(slots));
}

function eachScope([overall, ...others]: Scopes, change: (scope: Scope) => Slots): Scopes {
  const changed = (scope: Scope) => ({ ...scope, slots: change(scope) });
  return [changed(overall), ...others.map(changed)];
}

function longestQueue(scopes: Scopes, now: number): number {
  const count = ({ slots: { reserved, held }, isUrgent = false }: Scope) =>
    (isUrgent ? 0 : queued(reserved, now).length) + queued(held, now).length;
  return Math.max(...scopes.map(count));
}

/** Whether a wait is refused, and how much quiet time counts as its cause: none if it is refused by `maxWaitMs`. */
interface Bounded {
  readonly because?: Refused['because'];
  readonly quietMs: number;
}

/** `pending`: how many reservations wait before a new id; undefined for an id that has a slot. */
function refusal(ask: Ask, at: number, { now, quiet }: Moment, pending = -1): Bounded {
  const { maxWaitMs = Infinity, maxQuietMs = Infinity, expiresInMs = Infinity, maxPending = Infinity } = ask;
  const quietMs = quietMsBetween(quiet, now, at);
  if (quietMs > maxQuietMs) return { because: 'max-wait', quietMs: Infinity };
  if (at - now - quietMs > maxWaitMs) return { because: 'max-wait', quietMs: 0 };
  if (at - now > expiresInMs) return { because: 'max-wait', quietMs };
  return { ...(pending >= maxPending && { because: 'max-pending' }), quietMs };
}

function admitted(at: number, standing: Standing, now: number, repeated: boolean): Admitted {
  return { kind: 'admitted', at, sendAt: performance.now() + (at - now), repeated, ...standing };
}

function waiting(
  { at }: Place,
  cause: Cause,
  because: Refused['because'] | undefined,
  common: Common,
  { now, quiet }: Moment,
): Admission {
  const waitMs = at - now;
  const told = { ...cause, remaining: 0, resetMs: waitMs, ...common };
  if (because === undefined) return { kind: 'reserved', at, waitMs, ...told };
  return withQuietMs({ kind: 'refused', because, waitMs, ...told }, quiet, now);
}

/**
 * The deciding rule of an admission: the limit that makes the next ask wait longest, or the first limit if none does. `scopes`
 * already contain the admitted slot.
 */
function standingOf(scopes: readonly Scope[], now: number): Pick<Standing, 'rule' | 'remaining' | 'resetMs'> {
  const counted = scopes.flatMap(({ limits, slots: { sent } }) =>
    limits.map(({ name, max, perMs }) => ({ name, max, perMs, sent, end: (sent.at(-max)?.at ?? -Infinity) + perMs })),
  );
  const [first] = counted;
  if (first === undefined) return { rule: 'none', remaining: Infinity, resetMs: 0 };
  const slowest = counted.reduce((slower, other) => (other.end > slower.end ? other : slower));
  if (slowest.end > now) return { rule: slowest.name, remaining: 0, resetMs: slowest.end - now };
  const { rule, remaining, resetMs } = roomOf(first, first.sent, now);
  return { rule, remaining, resetMs };
}

/** How much room every limit has left. */
function everyRule(scopes: readonly Scope[], now: number): readonly RuleStanding[] {
  return scopes.flatMap(({ limits, slots: { sent } }) => limits.map((limit) => roomOf(limit, sent, now)));
}

function roomOf({ name, max, perMs }: Limit, sent: readonly Slot[], now: number): RuleStanding {
  const inWindow = sent.filter(({ at }) => at > now - perMs).slice(-max);
  const oldest = inWindow[0]?.at ?? now - perMs;
  return { rule: name, max, perMs, remaining: max - inWindow.length, resetMs: oldest + perMs - now };
}
