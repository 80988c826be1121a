import type { Admission, Admitted, Ask, Refused, Standing } from '../limiter.ts';
import { earliestInstant, hasHeld, joinInstant, queued, tailInstant, type Instant } from './plan.ts';
import { moveOn } from './replan.ts';
import type { Moment, Scope, Scopes } from './scope.ts';
import { including, marked, timeOf, withoutId, type Slots } from './slots.ts';
import { standingOf } from './standing.ts';

/** The answer to an ask, and the scopes after it where they change. */
export interface Decision {
  readonly admission: Admission;
  readonly after?: readonly Scope[];
}

/** The algorithm of docs/limiter.md, on slots in memory; admit.lua is the same on those in Redis. */
export function decide(ask: Ask, scopes: Scopes, moment: Moment, countBlocked: boolean): Decision {
  const { id, renew = false } = ask;
  const { now } = moment;
  const common = commonOf(scopes);
  const { toleranceMs } = common;
  const [overall] = scopes;
  const sentAt = timeOf(overall.slots.sent, id);
  const slot = scopes.map(({ slots }) => timeOf(slots.reserved, id)).find((at) => at !== undefined);
  if (sentAt !== undefined && !renew) {
    return { admission: admitted(sentAt, { ...standingOf(scopes, now), ...common }, now, true) };
  }

  const others = each(scopes, (slots) => withoutId(slots, id));
  const earliest = earliestInstant(others, moment);
  if (slot !== undefined && slot > now + toleranceMs) {
    const isTooLong = slot - now > (ask.maxWaitMs ?? Infinity);
    const instant = { ...earliest, at: slot };
    return { admission: waiting(instant, isTooLong ? 'max-wait' : undefined, common, now) };
  }

  const wasHeld = slot !== undefined && timeOf(overall.slots.reserved, id) === undefined;
  const standsBehindHeld = slot === undefined && sentAt === undefined && hasHeld(others, now);
  const tail = (among: Scopes) =>
    wasHeld ? joinInstant(among, slot, toleranceMs, moment) : tailInstant(among, toleranceMs, moment);
  const due = slot ?? sentAt;
  const returning = Math.max(wasHeld ? tail(others).at : earliest.at, due ?? 0);
  const isOnTime = due !== undefined && returning <= Math.max(now, due) + toleranceMs;
  const at = isOnTime ? returning : tail(others).at;
  if (isOnTime || at <= now + toleranceMs) {
    const after = each(others, (slots) => ({ ...slots, sent: including(slots.sent, { id, at }) }));
    return { admission: admitted(at, { ...standingOf(after, now), ...common }, now, false), after };
  }

  const mark = (slots: Slots) => (countBlocked ? marked(slots, id, now) : slots);
  const before = each(others, mark);
  const place = standsBehindHeld ? tailInstant(before.slice(1), toleranceMs, moment) : tail(before);
  const because = refusal(ask, place.at - now, due === undefined ? longestQueue(scopes, now) : undefined);
  const admission = waiting(place, because, common, now);
  if (because === undefined) {
    const reserve = (slots: Slots) => ({ ...slots, reserved: including(slots.reserved, { id, at: place.at }) });
    const [line] = before;
    const isHeld = standsBehindHeld || place.at > tailInstant([line], toleranceMs, moment).at;
    const [reserved, ...inCategory] = each(before, reserve);
    const after: Scopes = [isHeld ? line : reserved, ...inCategory];
    return { admission, after: wasHeld ? moveOn(after, id, slot) : after };
  }
  return countBlocked ? { admission, after: each(scopes, mark) } : { admission };
}

/** What every answer under these policies tells. */
type Common = Pick<Standing, 'toleranceMs' | 'gapMs'>;

function commonOf(scopes: Scopes): Common {
  const [holdsMs, gapsMs] = [scopes.map(({ holdMs }) => holdMs), scopes.map(({ gapMs }) => gapMs)];
  return { toleranceMs: Math.min(...holdsMs), gapMs: Math.max(...gapsMs) };
}

function each([overall, ...others]: Scopes, change: (slots: Slots) => Slots): Scopes {
  const changed = (scope: Scope) => ({ ...scope, slots: change(scope.slots) });
  return [changed(overall), ...others.map(changed)];
}

function longestQueue(scopes: Scopes, now: number): number {
  return Math.max(...scopes.map(({ slots }) => queued(slots.reserved, now).length));
}

/** `pending` is how many stand before an id that has no place of its own; absent for one that has. */
function refusal(ask: Ask, waitMs: number, pending: number | undefined): Refused['because'] | undefined {
  const { maxWaitMs = Infinity, maxPending = Infinity } = ask;
  if (waitMs > maxWaitMs) return 'max-wait';
  return pending !== undefined && pending >= maxPending ? 'max-pending' : undefined;
}

function admitted(at: number, standing: Standing, now: number, repeated: boolean): Admitted {
  return { kind: 'admitted', at, sendAt: performance.now() + (at - now), repeated, ...standing };
}

function waiting(
  { at, rule }: Instant,
  because: Refused['because'] | undefined,
  common: Common,
  now: number,
): Admission {
  const waitMs = at - now;
  const standing = { rule, remaining: 0, resetMs: waitMs, ...common };
  if (because !== undefined) return { kind: 'refused', because, waitMs, ...standing };
  return { kind: 'reserved', at, waitMs, ...standing };
}
