import type { Admission, Admitted, Ask, Refused, RuleStanding, Standing } from '../limiter.ts';
import {
  awake,
  causeBesidesQuiet,
  causeOf,
  countedWaitMs,
  earlyMsOf,
  freeFrom,
  GRACE_MS,
  quietLeft,
  quietMsBetween,
  waitsForQuiet,
  type Limit,
} from '../pace.ts';
import type { Slot, Slots } from '../recipient-state.ts';
import {
  including,
  marked,
  newest,
  timeOf,
  withoutId,
  withoutOldMarks,
  type AskMoment,
  type Scope,
  type Scopes,
} from './recipients.ts';

/** The answer to an ask, and the scopes after it if the answer changes them. */
export interface Decision {
  readonly admission: Admission;
  readonly after?: readonly Scope[];
}

/** The algorithm of docs/limiter.md on slots in memory; admit.lua is the same algorithm on slots in Redis. */
export function decide(ask: Ask, scopes: Scopes, moment: AskMoment, countBlocked: boolean): Decision {
  const { id, renew = false, leadMs = 0 } = ask;
  const { now } = moment;
  const common = commonOf(scopes);
  const { toleranceMs } = common;
  const withRooms = (among: Scopes): Common => (ask.everyRule ? { ...common, rules: everyRule(among, now) } : common);
  const [overall, category] = scopes;
  const sentAt = timeOf(overall.slots.sent, id);
  const inLine = timeOf(overall.slots.reserved, id);
  const heldBackAt = category && timeOf(category.slots.heldBack, id);
  const slot = inLine ?? heldBackAt;
  if (sentAt !== undefined && !renew) {
    return { admission: admitted(sentAt, { ...standingOf(scopes, now), ...withRooms(scopes) }, now, true) };
  }

  const others = each(scopes, (slots) => withoutId(slots, id));
  if (slot !== undefined && slot > now + earlyMsOf(toleranceMs)) {
    const place = { at: slot, isHeldBack: inLine === undefined };
    return { admission: waiting(ask, place, others, withRooms(others), moment) };
  }

  const comer: Comer = {
    due: slot ?? sentAt,
    isHeldBack: inLine === undefined && heldBackAt !== undefined,
    leadMs: Math.ceil(leadMs),
  };
  const at = admissionAt(comer, others, toleranceMs, moment);
  if (at !== undefined) {
    const after = each(others, (slots) => ({ ...slots, sent: including(slots.sent, { id, at }) }));
    return { admission: admitted(at, { ...standingOf(after, now), ...withRooms(after) }, now, false), after };
  }

  const before = countBlocked ? each(others, (slots) => marked(slots, id, now)) : others;
  const place = waitingPlace(comer, before, moment);
  const pending = comer.due === undefined ? longestQueue(scopes, now) : undefined;
  const admission = waiting(ask, place, before, withRooms(others), moment, pending);
  const isRefused = admission.kind === 'refused';
  if (isRefused && !countBlocked) return { admission };
  const after = isRefused ? each(scopes, (slots) => marked(slots, id, now)) : reserved(before, id, place);
  return { admission, after: countBlocked ? eachScope(after, trimmed) : after };
}

function trimmed({ limits, allLimits = limits, slots }: Scope): Slots {
  return withoutOldMarks(slots, Math.max(1, ...allLimits.map(({ max }) => max)));
}

/** Reserves a slot in line in every scope, but a held-back slot in the category alone. */
function reserved(scopes: Scopes, id: string, { at, isHeldBack }: Place): Scopes {
  if (!isHeldBack) return each(scopes, (slots) => ({ ...slots, reserved: including(slots.reserved, { id, at }) }));
  return eachScope(scopes, ({ category, slots }) =>
    category === undefined ? slots : { ...slots, heldBack: including(slots.heldBack, { id, at }) },
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
  const count = ({ slots: { reserved, heldBack }, isUrgent = false }: Scope) =>
    (isUrgent ? 0 : queued(reserved, now).length) + queued(heldBack, now).length;
  return Math.max(...scopes.map(count));
}

/**
 * Whether a wait is refused, and what counts as its cause: how many ms of quiet time, and the block. If it is refused by
 * `maxWaitMs`, only what counts for that.
 */
interface Bounded {
  readonly because?: Refused['because'];
  readonly quietMs: number;
  readonly isBlockCounted: boolean;
}

/** `till`: until when the id would wait without quiet times; `pending`: as for `waiting`. */
function refusal(ask: Ask, at: number, till: number, moment: AskMoment, pending: number): Bounded {
  const { maxWaitMs = Infinity, maxQuietMs = Infinity, expiresInMs = Infinity, maxPending = Infinity } = ask;
  const { now, quiet } = moment;
  const quietMs = quietMsBetween(quiet, now, at);
  if (quietMs > maxQuietMs && waitsForQuiet(quietMs, till, moment))
    return { because: 'max-wait', quietMs: Infinity, isBlockCounted: true };
  // With `maxWaitMs` 0 the id does not wait at all, so a block holds as any limit does.
  const isBlockCounted = maxWaitMs === 0;
  const countedMs = isBlockCounted ? at - now - quietMs : countedWaitMs(at, moment);
  if (countedMs > maxWaitMs) return { because: 'max-wait', quietMs: 0, isBlockCounted };
  if (at - now > expiresInMs) return { because: 'max-wait', quietMs, isBlockCounted: true };
  return { ...(pending >= maxPending && { because: 'max-pending' }), quietMs, isBlockCounted: true };
}

function admitted(at: number, standing: Standing, now: number, repeated: boolean): Admitted {
  return { kind: 'admitted', at, sendAt: performance.now() + (at - now), repeated, ...standing };
}

/**
 * The answer to an id that must wait until this place. `scopes` must not contain the id's own slots. `pending`: how many
 * reservations wait before a new id; left out for an id that has a slot.
 */
function waiting(ask: Ask, place: Place, scopes: Scopes, common: Common, moment: AskMoment, pending = -1): Admission {
  const { at, isHeldBack } = place;
  const { now, quiet } = moment;
  const lines = linesBefore(scopes, at, now);
  const { till } = causeBesidesQuiet(lines, at, moment);
  const { because, quietMs, isBlockCounted } = refusal(ask, at, till, moment, pending);
  const other = causeBesidesQuiet(lines, at, isBlockCounted ? moment : { now, blockedUntil: undefined });
  const cause = { ...causeOf(other, at, moment, quietMs), before: lines[isHeldBack ? 1 : 0]?.before ?? 0 };
  const waitMs = at - now;
  const parts = { ...cause, remaining: 0, resetMs: waitMs, ...common };
  if (because === undefined) return { kind: 'reserved', at, waitMs, ...parts };
  return { kind: 'refused', because, waitMs, ...parts, ...quietLeft(quiet, now) };
}

/**
 * The deciding rule of an admission: the limit that makes the next ask wait longest, or the first limit if none does. `scopes`
 * must already contain the admitted slot.
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

// Where the slot of an id lies: the same rules as in instants.lua and at the end of admit.lua.

/** The slot of an id that must wait. */
interface Place {
  readonly at: number;
  /** Reserved in its category alone, so that no id in the overall line has to wait for it. */
  readonly isHeldBack: boolean;
}

/** What decides the place of an id. */
interface Comer {
  /** The slot of the id, or the admission that it renews; undefined for a newcomer. */
  readonly due: number | undefined;
  /** Its category holds it back: it is not in the overall line yet. */
  readonly isHeldBack: boolean;
  /** The id is not sent earlier than this much after now. */
  readonly leadMs: number;
}

type Nth = (scope: Scope) => readonly Pick<Slot, 'at'>[];

/** The first instant, `from` or later, after a block and not in quiet time, at which these slots leave room in every limit. */
function firstInstant(scopes: readonly Scope[], slotsOf: Nth, moment: AskMoment, from: number = moment.now): number {
  const { blockedUntil = -Infinity, quiet, edgeMs } = moment;
  const ofScopes = scopes.map((scope) => ({ scope, instants: slotsOf(scope).map(({ at }) => at) }));
  const free = (start: number): number =>
    awake(quiet, Math.max(...ofScopes.map(({ scope, instants }) => freeFrom(start, scope, instants))), edgeMs);
  // Once more: quiet time may lead past the end of a stored policy, and then the limits after it decide.
  return free(free(Math.max(from, blockedUntil)));
}

/** The first instant that the sent slots allow. */
function earliestInstant(scopes: readonly Scope[], moment: AskMoment, from?: number): number {
  return firstInstant(scopes, ({ slots }) => slots.sent, moment, from);
}

/**
 * The first instant behind every reservation of a scope that still makes newcomers wait, `from` or later. A reservation counts at its slot, but
 * not before the earliest instant of the scope, and not before a sent slot. A held-back slot counts no earlier than the last
 * slot in line. So the order, from the newest to the oldest, is: held-back slots, slots in line, sent slots.
 */
function tailInstant(scope: Scope, moment: AskMoment, withHeldBack: boolean, from = moment.now): number {
  const { sent, reserved, heldBack } = scope.slots;
  const floor = Math.max(earliestInstant([scope], { ...moment, quiet: [] }), newest(sent) ?? 0);
  const line = queued(scope.isUrgent ? [] : reserved, moment.now).map(({ at }) => ({ at: Math.max(at, floor) }));
  const lastInLine = line.at(-1)?.at ?? floor;
  const behind = withHeldBack ? queued(heldBack, moment.now).map(({ at }) => ({ at: Math.max(at, lastInLine) })) : [];
  const queue = [...line, ...behind];
  return firstInstant([scope], () => [...sent, ...queue], moment, Math.max(from, queue.at(-1)?.at ?? 0));
}

/** The instant behind both lines. If the category's line leads past the end of a stored policy, the limits after it decide. */
function behindBoth([first]: Scopes, [line, own]: readonly [number, number], moment: AskMoment): number {
  const at = Math.max(line, own);
  const isPast = first.later !== undefined && at >= first.later.from && at > line;
  return isPast ? tailInstant(first, moment, false, at) : at;
}

/** The first free instant behind the overall line, and behind the category's line. Without a category, both are the same. */
function tails(scopes: Scopes, moment: AskMoment, withHeldBack: boolean): readonly [line: number, own: number] {
  const [first, category] = scopes;
  const line = tailInstant(first, moment, withHeldBack);
  return [line, category === undefined ? line : tailInstant(category, moment, withHeldBack)];
}

/** The reservations that come before a newcomer. */
function queued(reserved: readonly Slot[], now: number): readonly Slot[] {
  return reserved.filter(({ at }) => at >= now - GRACE_MS);
}

/**
 * The instant at which an id may be sent, if it is near enough; undefined if the id must wait. An id that comes back is sent if
 * the sent slots allow that within the tolerance, whatever is reserved. An id that its category held back goes behind the
 * overall line, so that no id there has to wait longer. `scopes` must not contain the id's own slots.
 */
function admissionAt(comer: Comer, scopes: Scopes, toleranceMs: number, moment: AskMoment): number | undefined {
  const { due, isHeldBack, leadMs } = comer;
  const { now } = moment;
  if (due === undefined) {
    const at = behindBoth(scopes, tails(scopes, moment, true), moment);
    return at <= now + earlyMsOf(toleranceMs) ? at : undefined;
  }
  const withoutEdge = { ...moment, edgeMs: 0 }; // its slot lies before the edge, so it may still be sent within the edge
  const from = Math.max(now + leadMs, due);
  const [line, own] = isHeldBack ? tails(scopes, withoutEdge, false) : [from, from];
  const free = isHeldBack
    ? behindBoth(scopes, [line, Math.max(own, from)], withoutEdge)
    : earliestInstant(scopes, withoutEdge, from);
  const at = awake(moment.quiet, free, 0);
  return at <= from + toleranceMs ? at : undefined;
}

/**
 * The place of an id that must wait: behind all ids in its line. An id that its category held back moves to the overall line
 * if the category has a free instant at most `gapMs` after the first one behind that line.
 */
function waitingPlace({ isHeldBack }: Pick<Comer, 'isHeldBack'>, scopes: Scopes, moment: AskMoment): Place {
  const [{ isUrgent = false, gapMs }, category] = scopes;
  if (isHeldBack && !isUrgent) {
    const [line, own] = tails(scopes, moment, false);
    if (own <= line + gapMs) return { at: behindBoth(scopes, [line, own], moment), isHeldBack: false };
  }
  const [line, own] = tails(scopes, moment, true);
  if (isUrgent) return { at: behindBoth(scopes, [line, own], moment), isHeldBack: true };
  // The id is held back if its category makes it wait longer than the overall line does, or already holds other ids back.
  const mates = queued(category?.slots.heldBack ?? [], moment.now);
  const inCategory = category !== undefined && (mates.length > 0 || own > line);
  return { at: inCategory ? own : line, isHeldBack: inCategory };
}

/** For each scope: its limits, its sent slots, and how many ids wait for slots before `at`. */
function linesBefore(scopes: Scopes, at: number, now: number) {
  return scopes.map(({ limits, later, slots, isUrgent = false }) => ({
    ...{ limits, later },
    sent: slots.sent,
    before: queued([...(isUrgent ? [] : slots.reserved), ...slots.heldBack], now).filter((slot) => slot.at < at).length,
  }));
}
