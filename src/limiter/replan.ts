import type { Window } from '../domain/quiet-windows.ts';
import { isUrgent, type Exemption } from '../domain/limits.ts';
import type { Limit } from './pace.ts';
import { awake, QUIET_EDGE_MS } from './quiet.ts';

/** A reservation. */
export interface Waiting {
  /** The id as it is stored. */
  readonly entry: string;
  /** Epoch milliseconds. */
  readonly slot: number;
  /** Its category, if that has a policy. */
  readonly category: string | undefined;
  /** It is held back by its category: reserved there, but not in the overall line yet. */
  readonly isHeld: boolean;
}

/** A reservation with its new slot. */
export interface Replanned {
  readonly waiting: Waiting;
  readonly at: number;
  readonly isHeld: boolean;
}

/** The limits of a scope, and its sent slots, oldest first. */
export interface Room {
  readonly limits: readonly Limit[];
  readonly sent: readonly number[];
  /** Of a category: which overall limits do not hold for it. */
  readonly exempt?: readonly Exemption[] | undefined;
}

export interface ReplanAt {
  readonly now: number;
  readonly blockedUntil: number | undefined;
  /** No slot is moved to earlier than now plus this. */
  readonly leadMs: number;
  /** The quiet times around now. */
  readonly quiet: readonly Window[];
}

/**
 * Gives every reservation its earliest slot, in their order, as if all asked now one after the other: later if the limits have
 * become stricter, earlier if looser. An overdue reservation keeps its slot if the limits allow it.
 * `rooms` has the overall scope under `undefined`. Takes O(n) for n reservations, times the number of limits.
 */
export function replan(
  waiting: readonly Waiting[],
  rooms: ReadonlyMap<string | undefined, Room>,
  { now, blockedUntil = -Infinity, leadMs, quiet }: ReplanAt,
): Replanned[] {
  const lists = new Map([...rooms].map(([category, room]) => [category, new List(room)]));
  const overall = rooms.get(undefined) ?? { limits: [], sent: [] };
  const line = lists.get(undefined) ?? new List(overall);
  return waiting.map((each) => {
    const from = Math.max(Math.min(each.slot, now + leadMs), blockedUntil);
    const own = each.category === undefined ? undefined : lists.get(each.category);
    const exempt = (own && rooms.get(each.category)?.exempt) ?? [];
    const isQuiet = quiet.length > 0 && !exempt.includes('quietHours');
    const free = (list: List) => (isQuiet ? awake(quiet, list.free(from), QUIET_EDGE_MS) : list.free(from));
    const goesFirst = own !== undefined && isUrgent({ exempt });
    const inLine = free(goesFirst ? new List(withoutLimits(overall, exempt)) : line);
    const inCategory = own ? free(own) : -Infinity;
    const isHeld = goesFirst || (own !== undefined && (own.hasHeld || inCategory > inLine));
    const at = goesFirst ? Math.max(inLine, inCategory) : isHeld ? inCategory : inLine;
    own?.take(at, isHeld);
    if (!isHeld) line.take(at, false);
    return { waiting: each, at, isHeld };
  });
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
  hasHeld = false;

  constructor({ limits, sent }: Room) {
    this.#limits = limits;
    this.#instants = [...sent];
  }

  /** The first instant, `from` or later, that the limits allow behind all placed slots. */
  free(from: number): number {
    const ends = this.#limits.map(({ max, perMs }) => (this.#instants.at(-max) ?? -Infinity) + perMs);
    return Math.max(from, this.#last, ...ends);
  }

  take(at: number, isHeld: boolean): void {
    // Search from the end: only overdue reservations are placed before a sent slot.
    this.#instants.splice(this.#instants.findLastIndex((instant) => instant <= at) + 1, 0, at);
    this.#last = at;
    this.hasHeld ||= isHeld;
  }
}
