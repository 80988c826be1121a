import { isUrgent, type Exemption } from '../domain/limits.ts';
import { causeOf, type Line, type Moment, GRACE_MS, type Limit, awake, QUIET_EDGE_MS } from './pace.ts';
import type { Cause } from './limiter.ts';

/** A reservation. */
export interface Waiting {
  /** The id as it is stored. */
  readonly entry: string;
  /** Epoch milliseconds. */
  readonly slot: number;
  /** Its category, if that has a policy. */
  readonly category: string | undefined;
  /** It is held back by its category: reserved there, but not in the overall line yet. */
  readonly isHeldBack: boolean;
}

/** A reservation with its new slot. */
export interface Replanned {
  readonly waiting: Waiting;
  readonly at: number;
  readonly isHeldBack: boolean;
  readonly cause: Cause;
}

/** The limits of a scope, and its sent slots, oldest first. */
export interface Room {
  readonly limits: readonly Limit[];
  readonly sent: readonly number[];
  /** Of a category: which overall limits do not hold for it. */
  readonly exempt?: readonly Exemption[] | undefined;
}

/** The rooms of a recipient: the overall one under `undefined`, then those of its categories. */
export type Rooms = ReadonlyMap<string | undefined, Room>;

export interface ReplanAt extends Moment {
  /** No slot is moved to earlier than now plus this. */
  readonly leadMs: number;
}

/**
 * Gives every reservation its earliest slot, in their order, as if all asked now one after the other: later if the limits have
 * become stricter, earlier if looser. An overdue reservation keeps its slot if the limits allow it.
 * Takes O(n log n) for n reservations, times the number of limits.
 */
export function replan(
  waiting: readonly Waiting[],
  rooms: Rooms,
  { now, blockedUntil, leadMs, quiet }: ReplanAt,
): Replanned[] {
  const lists = new Map([...rooms].map(([category, room]) => [category, new List(room)]));
  const overall = rooms.get(undefined) ?? { limits: [], sent: [] };
  const line = lists.get(undefined) ?? new List(overall);
  const places = waiting.map((each) => {
    const from = Math.max(Math.min(each.slot, now + leadMs), blockedUntil ?? -Infinity);
    const own = each.category === undefined ? undefined : lists.get(each.category);
    const exempt = (own && rooms.get(each.category)?.exempt) ?? [];
    const isQuiet = quiet.length > 0 && !exempt.includes('quietHours');
    const free = (list: List) => (isQuiet ? awake(quiet, list.free(from), QUIET_EDGE_MS) : list.free(from));
    const goesFirst = own !== undefined && isUrgent({ exempt });
    const inLine = free(goesFirst ? new List(withoutLimits(overall, exempt)) : line);
    const inCategory = own ? free(own) : -Infinity;
    const isHeldBack = goesFirst || (own !== undefined && (own.hasHeldBack || inCategory > inLine));
    const at = goesFirst ? Math.max(inLine, inCategory) : isHeldBack ? inCategory : inLine;
    own?.take(at, isHeldBack);
    if (!isHeldBack) line.take(at, false);
    return { waiting: each, at, isHeldBack };
  });
  const placed = places.map(({ waiting: { category }, at: slot, isHeldBack }) => ({ category, slot, isHeldBack }));
  const causes = causesOf(placed, rooms, { now, blockedUntil, quiet });
  return places.map((place, index) => ({ ...place, cause: causes[index] ?? NO_CAUSE }));
}

/** Only for the compiler: every reservation has a cause of its own. */
export const NO_CAUSE: Cause = { rule: 'none', before: 0 };

type Placed = Pick<Waiting, 'slot' | 'category' | 'isHeldBack'>;

/** Why each of these waits for so long; in their order. */
export function causesOf(waiting: readonly Placed[], rooms: Rooms, moment: Moment): Cause[] {
  const overall = rooms.get(undefined) ?? { limits: [], sent: [] };
  const earlier = new Map<string | undefined, number>();
  const count = (category: string | undefined): number => earlier.get(category) ?? 0;
  const add = (category: string | undefined): void => void earlier.set(category, count(category) + 1);
  const causes: Cause[] = [];
  let uncounted: Placed[] = []; // those of the same slot are not before each other
  for (const index of [...waiting.keys()].sort((a, b) => slotAt(waiting, a) - slotAt(waiting, b))) {
    const each = waiting[index];
    if (each === undefined) continue;
    if (uncounted[0]?.slot !== each.slot) {
      for (const { slot, category, isHeldBack } of uncounted) {
        if (slot < moment.now - GRACE_MS) continue;
        if (!isHeldBack) add(undefined);
        if (category !== undefined) add(category);
      }
      uncounted = [];
    }
    uncounted.push(each);
    const { slot, category, isHeldBack } = each;
    const own = category === undefined ? undefined : rooms.get(category);
    const exempt = own?.exempt ?? [];
    const goesFirst = own !== undefined && isUrgent({ exempt });
    const quiet = exempt.includes('quietHours') ? [] : moment.quiet;
    const first = lineOf(goesFirst ? withoutLimits(overall, exempt) : overall, goesFirst ? 0 : count(undefined));
    const lines = own === undefined ? [first] : [first, lineOf(own, count(category))];
    const before = count(isHeldBack ? category : undefined);
    causes[index] = { ...causeOf(lines, slot, { ...moment, quiet }), before };
  }
  return causes;
}

function slotAt(waiting: readonly Placed[], index: number): number {
  return waiting[index]?.slot ?? 0;
}

function lineOf({ limits, sent }: Room, before: number): Line {
  return { limits, nthSent: (k) => sent.at(-k), before };
}

/** The overall scope as it is for an urgent category, which stands behind nobody there. */
function withoutLimits({ limits, sent }: Room, exempt: readonly Exemption[]): Room {
  return { sent, limits: limits.filter(({ name }) => !exempt.includes(name === 'gap' ? 'gap' : 'rules')) };
}

/** The slots that are taken in one scope. */
class List {
  readonly #limits: readonly Limit[];
  readonly #instants: number[];
  #last = -Infinity;
  hasHeldBack = false;

  constructor({ limits, sent }: Room) {
    this.#limits = limits;
    this.#instants = [...sent];
  }

  /** The first instant, `from` or later, that the limits allow behind all placed slots. */
  free(from: number): number {
    const ends = this.#limits.map(({ max, perMs }) => (this.#instants.at(-max) ?? -Infinity) + perMs);
    return Math.max(from, this.#last, ...ends);
  }

  take(at: number, isHeldBack: boolean): void {
    // Search from the end: only overdue reservations are placed before a sent slot.
    this.#instants.splice(this.#instants.findLastIndex((instant) => instant <= at) + 1, 0, at);
    this.#last = at;
    this.hasHeldBack ||= isHeldBack;
  }
}
