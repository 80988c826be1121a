import { isUrgent, type Exemption, type Policy, type Overtaking } from '../domain/limits.ts';
import type { QuietHours } from '../domain/quiet-hours.ts';
import type { Admission, Block, Cause, ForeseenFirst, Inspection, Moved, OrderView, SlotView } from './limiter.ts';
import { inOrder, type OrderNotes } from './overtaking.ts';
import {
  GRACE_MS,
  QUIET_EDGE_MS,
  awake,
  causeBesidesQuiet,
  causeOf,
  countedWaitMs,
  freeFrom,
  limitsOf,
  paceOf,
  quietMsBetween,
  type LaterLimits,
  type Limit,
  type Moment,
} from './pace.ts';

// For both limiters: plans the reservations of a recipient anew, says why each waits, and shows what is stored.

/** What is stored about a recipient and in force now. */
export interface RecipientState extends Moment {
  /** The overall policy in force. */
  readonly policy: Policy;
  /** The policy that is stored for the recipient, if it is in force. */
  readonly stored: StoredPolicy | undefined;
  readonly block: Block | undefined;
  /** The quiet hours in force, and whether they are stored for the recipient. */
  readonly hours: QuietHours | undefined;
  readonly areHoursStored: boolean;
  /** The overall scope, then the scopes of the categories that have a policy. */
  readonly scopes: readonly [Scope, ...Scope[]];
  /** Which reservations go first, and which were overtaken. */
  readonly notes: OrderNotes;
  readonly overtaking: Overtaking;
}

/** The limits that hold when the stored policy has ended; undefined if no policy is stored, or if it has no end. */
export function laterOf(stored: StoredPolicy | undefined, general: Policy): LaterLimits | undefined {
  if (stored === undefined || stored.until === Infinity) return undefined;
  return { from: stored.until, limits: limitsOf(general, undefined) };
}

/** A policy that is stored for a recipient, in force before `until`; Infinity if it has no end. */
export interface StoredPolicy {
  readonly policy: Policy;
  readonly until: number;
}

/** A recipient's limits and slots, overall or of one category. */
export interface Scope {
  /** Absent for the overall scope. */
  readonly category?: string;
  /** With names as in answers: `messages:10/1m`. */
  readonly limits: readonly Limit[];
  /** Only in the overall scope, while a stored policy with an end is in force: the limits after that end. */
  readonly later?: LaterLimits | undefined;
  /** Only in a category: the overall limits that do not hold for the category. */
  readonly exempt?: readonly Exemption[];
  readonly slots: Slots;
}

/** The slots of one scope, each list oldest first. An id is in one list at most. */
export interface Slots {
  readonly sent: readonly Slot[];
  /** Reservations in line. The overall scope has those of all categories, a category only its own. */
  readonly reserved: readonly Slot[];
  /** Slots that this category holds back: they are not in the overall line yet. Empty in the overall scope. */
  readonly heldBack: readonly Slot[];
}

/** An instant that is taken. */
export interface Slot {
  readonly at: number;
  /** The id as it is stored. Absent for a mark, which counts a blocked ask as sent (`countBlocked`). */
  readonly id?: string;
  /** For a mark of the memory limiter: the id of its ask. One id has at most one mark at one instant. */
  readonly markOf?: string;
}

/** A reservation. */
export interface Waiting extends Slot {
  readonly id: string;
  /** The scope of its category, if that has a policy. */
  readonly own: Scope | undefined;
  readonly isHeldBack: boolean;
}

/** A reservation with its new slot. */
export interface Replanned extends Waiting {
  readonly wasAt: number;
  readonly wasHeldBack: boolean;
  readonly cause: Cause;
  /** The note to store, if this plan makes the reservation later because others go first. */
  readonly note?: { readonly times: number; readonly lateMs: number };
}

/** A reservation whose slot comes within this time is not overtaken, because its caller is about to come. Milliseconds. */
export const FIRST_LEAD_MS = 250;

/**
 * Gives every reservation its earliest slot under the present limits, as if all asked again now, in the order of their slots.
 * No slot moves to earlier than now plus `leadMs`. Reservations that go first are moved before others, but not before slots
 * that come within `firstLeadMs`. An overdue reservation keeps its slot if the limits allow that. Takes O(n log n) for n
 * reservations, times the number of limits.
 *
 * @param firstLeadMs as `leadMs`, for reservations that are moved before others: shorter, because their callers ask again at
 * once
 */
export function replan(state: RecipientState, leadMs: number, firstLeadMs: number = FIRST_LEAD_MS): Replanned[] {
  const { now, blockedUntil = -Infinity, quiet, scopes, notes, overtaking } = state;
  const [overall, ...categories] = scopes;
  const line = new Line(overall, overall.slots.sent);
  const lines = new Map(categories.map((scope) => [scope, new Line(scope, scope.slots.sent)]));
  const laterMs = (from: number, at: number): number => at - from - quietMsBetween(quiet, from, at);
  const firstOf = new Map(categories.map((scope) => [scope, new Line(scope, scope.slots.sent)]));
  const earliestOf = ({ own }: Waiting): number => {
    const line = own && firstOf.get(own);
    const from = Math.max(now + firstLeadMs, blockedUntil);
    const at = awake(quietFor(own, quiet), line?.free(from) ?? from, QUIET_EDGE_MS);
    line?.take(at, false); // the next one of the category comes after it
    return at;
  };
  const movableFrom = now + firstLeadMs;
  const order = inOrder(waitingIn(scopes), { notes, overtaking, movableFrom, laterMs, earliestOf });
  const places = order.map(({ passedBy, passes, ...waiting }) => {
    const { id, own, at: wasAt, isHeldBack: wasHeldBack } = waiting;
    const from = Math.max(Math.min(wasAt, now + (passes ? firstLeadMs : leadMs)), blockedUntil);
    const windows = quietFor(own, quiet);
    const awakeFree = (each: Line, start: number) => awake(windows, each.free(start), QUIET_EDGE_MS);
    // Once more: quiet time may lead past the end of a stored policy, and then the limits after it decide.
    const free = (each: Line, start = from) => awakeFree(each, awakeFree(each, start));
    const ownLine = own && lines.get(own);
    const isExempt = own !== undefined && isUrgent(own);
    const overallLine = isExempt ? new Line(scopeFor(own, overall), overall.slots.sent) : line;
    const inLine = free(overallLine);
    const inCategory = ownLine ? free(ownLine) : -Infinity;
    const isHeldBack = isExempt || ownLine?.hasHeldBack === true || inCategory > inLine;
    const at = isExempt ? free(overallLine, Math.max(inLine, inCategory)) : isHeldBack ? inCategory : inLine;
    ownLine?.take(at, isHeldBack);
    if (!isHeldBack) line.take(at, false);
    if (passedBy === 0 || at <= wasAt) return { ...waiting, at, isHeldBack, wasAt, wasHeldBack };
    const { times = 0, lateMs = 0 } = notes.get(id) ?? {};
    const note = { times: times + passedBy, lateMs: lateMs + laterMs(wasAt, at) };
    return { ...waiting, at, isHeldBack, wasAt, wasHeldBack, note };
  });
  return withCauses(places, state);
}

/**
 * How long a reservation would wait if it went first, how much of that wait is quiet time, and how much counts for `maxWaitMs`.
 * `at`: for an id without a slot, the slot that it would get without going first.
 */
export function foreseeFirst(
  state: RecipientState,
  { entry: id, category, at }: { readonly entry: string; readonly category: string | undefined; readonly at: number },
): ForeseenFirst {
  const { now, scopes, blockedUntil } = state;
  const [overall, ...categories] = scopes;
  const isThere = waitingIn(scopes).some((one) => one.id === id);
  const withOne = (scope: Scope): Scope => {
    const reserved = [...scope.slots.reserved, { id, at }].sort((a, b) => a.at - b.at);
    return { ...scope, slots: { ...scope.slots, reserved } };
  };
  const ofCategories = categories.map((scope) => (scope.category === category ? withOne(scope) : scope));
  const notes = new Map(state.notes).set(id, { goesFirst: true });
  const tried = { ...state, notes, ...(!isThere && { scopes: [withOne(overall), ...ofCategories] as const }) };
  const found = replan(tried, FIRST_LEAD_MS).find((one) => one.id === id);
  const slot = found?.at ?? at;
  const quiet = quietFor(found?.own, state.quiet);
  const countedMs = countedWaitMs(slot, { now, blockedUntil, quiet });
  return { waitMs: slot - now, quietMs: quietMsBetween(quiet, now, slot), countedMs };
}

/** All reservations in the order of their slots, each id once. At the same slot, held-back reservations come last. */
export function waitingIn([overall, ...categories]: RecipientState['scopes']): Waiting[] {
  const ofCategory = new Map(categories.flatMap((scope) => scope.slots.reserved.map(({ id }) => [id, scope] as const)));
  const inLine = overall.slots.reserved.map(({ id = '', at }) => ({
    id,
    at,
    own: ofCategory.get(id),
    isHeldBack: false,
  }));
  const known = new Set(inLine.map(({ id }) => id)); // an id that joined the line while the sets were read may be in both lists
  const heldBack = categories.flatMap((own) =>
    own.slots.heldBack.map(({ id = '', at }) => ({ id, at, own, isHeldBack: true })).filter(({ id }) => !known.has(id)),
  );
  return [...inLine, ...heldBack].sort((a, b) => a.at - b.at);
}

/** The reservations, each with the cause of its wait. */
export function withCauses<W extends Waiting>(
  waiting: readonly W[],
  state: RecipientState,
): (W & { readonly cause: Cause })[] {
  const { scopes, ...moment } = state;
  const [overall] = scopes;
  const earlier = new Map<Scope, number>();
  const count = (scope: Scope): number => earlier.get(scope) ?? 0;
  const causes = new Map<W, Cause>();
  let uncounted: W[] = []; // reservations at the same slot are not before each other
  for (const each of waiting.toSorted((a, b) => a.at - b.at)) {
    if (uncounted[0]?.at !== each.at) {
      for (const { at, own, isHeldBack } of uncounted) {
        if (at < moment.now - GRACE_MS) continue;
        if (!isHeldBack) earlier.set(overall, count(overall) + 1);
        if (own !== undefined) earlier.set(own, count(own) + 1);
      }
      uncounted = [];
    }
    uncounted.push(each);
    const { at, own, isHeldBack } = each;
    const first = own !== undefined && isUrgent(own) ? 0 : count(overall);
    const scopesOfIt = [{ ...scopeFor(own, overall), sent: overall.slots.sent, before: first }];
    if (own !== undefined)
      scopesOfIt.push({ limits: own.limits, later: undefined, sent: own.slots.sent, before: count(own) });
    const cause = causeOf(causeBesidesQuiet(scopesOfIt, at, moment), at, {
      now: moment.now,
      quiet: quietFor(own, moment.quiet),
    });
    causes.set(each, { ...cause, before: count(isHeldBack && own ? own : overall) });
  }
  return waiting.map((each) => ({ ...each, cause: causes.get(each) ?? { rule: 'none', before: 0 } }));
}

/** The overall limits that hold for an id of this category. */
export function limitsFor(own: Pick<Scope, 'exempt'> | undefined, { limits }: Pick<Scope, 'limits'>): readonly Limit[] {
  return limits.filter(({ name }) => own?.exempt?.includes(name === 'gap' ? 'gap' : 'rules') !== true);
}

/** As `limitsFor`, also for the limits that hold after a stored policy. */
export function scopeFor(
  own: Pick<Scope, 'exempt'> | undefined,
  { limits, later }: Pick<Scope, 'limits' | 'later'>,
): Pick<Scope, 'limits' | 'later'> {
  return { limits: limitsFor(own, { limits }), later: later && { ...later, limits: limitsFor(own, later) } };
}

export function quietFor(own: Scope | undefined, quiet: Moment['quiet']): Moment['quiet'] {
  return own?.exempt?.includes('quietHours') === true ? [] : quiet;
}

/** The slots that are taken in one scope. */
class Line {
  readonly #limits: Pick<Scope, 'limits' | 'later'>;
  readonly #instants: number[];
  #last = -Infinity;
  hasHeldBack = false;

  constructor(limits: Pick<Scope, 'limits' | 'later'>, sent: readonly Slot[]) {
    this.#limits = limits;
    this.#instants = sent.map(({ at }) => at);
  }

  /** The first instant, `from` or later, that the limits allow behind all slots placed so far. */
  free(from: number): number {
    return freeFrom(Math.max(from, this.#last), this.#limits, this.#instants);
  }

  take(at: number, isHeldBack: boolean): void {
    // Search from the end: only overdue reservations are placed before a sent slot.
    this.#instants.splice(this.#instants.findLastIndex((instant) => instant <= at) + 1, 0, at);
    this.#last = at;
    this.hasHeldBack ||= isHeldBack;
  }
}

/** The id of a stored entry; undefined if only its digest is stored. */
type IdOf = (stored: string) => string | undefined;

/** Reports the reservations whose slots have changed. A reservation that changed only its scope is left out. */
export function movedOf(places: readonly Replanned[], idOf: IdOf): Moved[] {
  return movesOf(
    places.filter(({ at, wasAt }) => at !== wasAt),
    idOf,
  );
}

/** As `movedOf`, for all reservations. */
export function movesOf(places: readonly Replanned[], idOf: IdOf): Moved[] {
  return places.map(({ at, wasAt: from, own, cause, ...slot }) => {
    const { id } = viewOf({ at, id: slot.id }, idOf);
    const category = own?.category;
    return { ...(id !== undefined && { id }), ...(category !== undefined && { category }), from, at, ...cause };
  });
}

/** What an operator sees of a recipient. `next`: the answer that a newcomer would get. */
export function inspectionOf(state: RecipientState, next: Admission, keepIds: boolean, idOf: IdOf): Inspection {
  const { now, policy, stored, block, hours, areHoursStored, quiet, scopes, notes } = state;
  const since = now - paceOf(policy).longestMs;
  const quietUntil = awake(quiet, now, 0);
  return {
    now,
    policy,
    source: stored === undefined ? 'limiter' : 'stored',
    ...(stored !== undefined && stored.until !== Infinity && { policyUntil: stored.until }),
    ...(block && { block }),
    ...(hours && {
      quiet: {
        ...{ hours, source: areHoursStored ? 'stored' : 'limiter' },
        ...(quietUntil > now && { until: quietUntil }),
      },
    }),
    sent: scopes[0].slots.sent
      .filter(({ at }) => at >= since)
      .map((slot) => (keepIds ? viewOf(slot, idOf) : { at: slot.at })),
    reserved: withCauses(waitingIn(scopes), state).map(({ cause, ...slot }, index, all) => ({
      ...viewOf(slot, idOf),
      ...cause,
      ...(notes.has(slot.id) && orderOf(index, all, notes)),
    })),
    nextAt: 'at' in next ? next.at : now + next.waitMs,
    rule: next.rule,
  };
}

/** A reservation's note as people see it. `waiting`: all reservations, by slot. */
export function orderOf(index: number, waiting: readonly Waiting[], notes: OrderNotes): OrderView {
  const own = waiting[index];
  const { goesFirst = false, times = 0 } = (own && notes.get(own.id)) ?? {};
  if (!goesFirst) return times > 0 ? { overtaken: times } : {};
  return { goesBefore: waiting.slice(index + 1).filter(({ id }) => notes.get(id)?.goesFirst !== true).length };
}

function viewOf({ at, id: stored }: Slot, idOf: IdOf): SlotView {
  const id = stored === undefined ? undefined : idOf(stored);
  return { at, ...(id !== undefined && { id }) };
}
