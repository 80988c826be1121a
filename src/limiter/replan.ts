import type { Limit } from './pace.ts';

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
}

export interface ReplanAt {
  readonly now: number;
  readonly blockedUntil: number | undefined;
  /** No slot is moved to earlier than now plus this. */
  readonly leadMs: number;
}

/**
 * Gives every reservation its earliest slot, in their order, as if all asked now one after the other: later if the limits have
 * become stricter, earlier if looser. An overdue reservation keeps its slot if the limits allow it.
 * `rooms` has the overall scope under `undefined`. Takes O(n) for n reservations, times the number of limits.
 */
export function replan(
  waiting: readonly Waiting[],
  rooms: ReadonlyMap<string | undefined, Room>,
  { now, blockedUntil = -Infinity, leadMs }: ReplanAt,
): Replanned[] {
  const lists = new Map([...rooms].map(([category, room]) => [category, new List(room)]));
  const line = lists.get(undefined) ?? new List({ limits: [], sent: [] });
  return waiting.map((each) => {
    const from = Math.max(Math.min(each.slot, now + leadMs), blockedUntil);
    const own = each.category === undefined ? undefined : lists.get(each.category);
    const inLine = line.free(from);
    const inCategory = own?.free(from) ?? -Infinity;
    const isHeld = own !== undefined && (own.hasHeld || inCategory > inLine);
    const at = isHeld ? inCategory : inLine;
    own?.take(at, isHeld);
    if (!isHeld) line.take(at, false);
    return { waiting: each, at, isHeld };
  });
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
