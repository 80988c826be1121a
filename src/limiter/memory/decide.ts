import type { Admission, Admitted, Ask, Refused, Standing } from '../limiter.ts';
import { isLate, keptInOrder } from './order.ts';
import { Places, type Comer, type Place } from './place.ts';
import { quietMsBetween, withQuietMs } from '../quiet.ts';
import { earliestInstant, queued, type Instant } from './plan.ts';
import type { Moment, Scope, Scopes } from './scope.ts';
import { including, marked, timeOf, withoutId, withoutOldMarks, type Slot, type Slots } from './slots.ts';
import { everyRule, standingOf } from './standing.ts';

/** The answer to an ask, and the scopes after it if they change. */
export interface Decision {
  readonly admission: Admission;
  readonly after?: readonly Scope[];
}

/** The algorithm of docs/limiter.md on slots in memory; admit.lua is the same for slots in Redis. */
export function decide(ask: Ask, scopes: Scopes, moment: Moment, countBlocked: boolean): Decision {
  const { id, renew = false } = ask;
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
  if (slot !== undefined && slot > now + toleranceMs) {
    const instant = { ...earliestInstant(others, moment), at: slot };
    return { admission: waiting(instant, refusal(ask, slot, moment, undefined), told(others), moment, ask) };
  }

  const isHeld = inLine === undefined && heldAt !== undefined;
  const due = slot ?? sentAt;
  const isInTime = due !== undefined && now <= due + toleranceMs;
  const comer: Comer = { due, isHeld, isLate: isLate(due, isHeld, others, toleranceMs, now) };
  const at = new Places(comer, others, toleranceMs, moment).admission();
  if (at !== undefined) {
    const [line, ...inCategory] = each(others, (slots) => ({ ...slots, sent: including(slots.sent, { id, at }) }));
    const after: Scopes = [
      isInTime && inLine !== undefined ? noneMissed(line) : line,
      ...(isInTime && isHeld ? inCategory.map(noneMissed) : inCategory),
    ];
    return { admission: admitted(at, { ...standingOf(after, now), ...told(after) }, now, false), after };
  }

  const before = countBlocked ? each(others, (slots) => marked(slots, id, now)) : others;
  const place = new Places(comer, before, toleranceMs, moment).waiting();
  const because = refusal(ask, place.at, moment, due === undefined ? longestQueue(scopes, now) : undefined);
  const admission = waiting(place, because, told(others), moment, ask);
  if (because !== undefined && !countBlocked) return { admission };
  const after =
    because === undefined
      ? reserved(before, id, place, { ...comer, isInTime, isInLine: inLine !== undefined }, toleranceMs, moment)
      : each(scopes, (slots) => marked(slots, id, now));
  return { admission, after: countBlocked ? eachScope(after, trimmed) : after };
}

function trimmed({ limits, allLimits = limits, slots }: Scope): Slots {
  return withoutOldMarks(slots, Math.max(1, ...allLimits.map(({ max }) => max)));
}

function reserved(
  scopes: Scopes,
  id: string,
  place: Place,
  comer: Comer & { readonly isInLine: boolean; readonly isInTime: boolean },
  holdMs: number,
  moment: Moment,
): Scopes {
  const { at, isHeld, isPutOff } = place;
  const [line, ...inCategory] = scopes;
  const reserve = (slots: Slots) => ({ ...slots, reserved: including(slots.reserved, { id, at }) });
  if (isHeld) {
    const hold = ({ slots }: Scope) => ({
      ...slots,
      held: including(slots.held, { id, at }),
      ...missed(slots.held, slots, comer, true),
    });
    return [
      comer.isInTime && comer.isInLine ? noneMissed(line) : line,
      ...inCategory.map((scope) => ({ ...scope, slots: hold(scope) })),
    ];
  }
  const kept = isPutOff ? keptInOrder(line, comer.due ?? at, at, holdMs, moment) : line.slots.reserved;
  const slots = { ...line.slots, reserved: kept, ...missed(kept, line.slots, comer, false) };
  const others = comer.isInTime && comer.isHeld ? inCategory.map(noneMissed) : inCategory;
  return each([{ ...line, slots }, ...others], reserve);
}

/** How many ids in a row came late, including this one. The count starts again from 0 if no `others` wait. */
function missed(others: readonly Slot[], slots: Slots, comer: Comer, isHeld: boolean): Pick<Slots, 'missed'> {
  const before = others.length === 0 ? undefined : slots.missed;
  return { missed: comer.isLate && comer.isHeld === isHeld ? (before ?? 0) + 1 : before };
}

/** An id came on time, so the count of late ids ends. */
function noneMissed(scope: Scope): Scope {
  return { ...scope, slots: { ...scope.slots, missed: undefined } };
}

/** The part of an answer that depends on the policies alone. */
type Common = Pick<Standing, 'toleranceMs' | 'gapMs' | 'rules'>;

function commonOf(scopes: Scopes): Common {
  const [holdsMs, gapsMs] = [scopes.map(({ holdMs }) => holdMs), scopes.map(({ gapMs }) => gapMs)];
  return { toleranceMs: Math.min(...holdsMs), gapMs: Math.max(...gapsMs) };
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

/** `pending`: how many reservations wait before a new id; undefined for an id that has a slot. */
function refusal(ask: Ask, at: number, moment: Moment, pending: number | undefined): Refused['because'] | undefined {
  const { maxWaitMs = Infinity, expiresInMs = Infinity, maxPending = Infinity } = ask;
  const waitMs = at - moment.now;
  const quietMs = quietMsBetween(moment.quiet, moment.now, at);
  if (isTooQuiet(ask, at, moment) || waitMs - quietMs > maxWaitMs || waitMs > expiresInMs) return 'max-wait';
  return pending !== undefined && pending >= maxPending ? 'max-pending' : undefined;
}

function isTooQuiet({ maxQuietMs = Infinity }: Ask, at: number, { now, quiet }: Moment): boolean {
  return quietMsBetween(quiet, now, at) > maxQuietMs;
}

function admitted(at: number, standing: Standing, now: number, repeated: boolean): Admitted {
  return { kind: 'admitted', at, sendAt: performance.now() + (at - now), repeated, ...standing };
}

function waiting(
  { at, rule }: Instant,
  because: Refused['because'] | undefined,
  common: Common,
  moment: Moment,
  ask: Ask,
): Admission {
  const { now, quiet } = moment;
  const waitMs = at - now;
  const standing = { rule, remaining: 0, resetMs: waitMs, ...common };
  if (because === undefined) return { kind: 'reserved', at, waitMs, ...standing };
  const told = isTooQuiet(ask, at, moment) ? { ...standing, rule: 'quiet' } : standing;
  return withQuietMs({ kind: 'refused', because, waitMs, ...told }, quiet, now);
}
