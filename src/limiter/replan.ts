import type { Limit } from './pace.ts';

/** One that waits. */
export interface Waiting {
  /** What stands for its id. */
  readonly entry: string;
  /** Epoch milliseconds. */
  readonly slot: number;
  /** Its category, where that has a policy. */
  readonly category: string | undefined;
  /** Its category holds it back: it stands in no line yet. */
  readonly isHeld: boolean;
}

/** Where it waits from now on. */
export interface Replanned {
  readonly waiting: Waiting;
  readonly at: number;
  readonly isHeld: boolean;
}

/** The limits of a scope, and the instants that were sent, oldest first. */
export interface Room {
  readonly limits: readonly Limit[];
  readonly sent: readonly number[];
}

export interface ReplanAt {
  readonly now: number;
  readonly blockedUntil: number | undefined;
  /** Nobody is moved to earlier than this from now. */
  readonly leadMs: number;
}

/**
 * Gives all that wait their earliest places, in their order, as if they asked one after the other now: later where the limits
 * have become stricter, earlier where they have become looser. An overdue one keeps its slot where the limits allow it.
 * `rooms` has the overall scope under `undefined`. O(n) for n that wait, times the number of limits.
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

/** The instants that are taken in one scope. */
class List {
  readonly #limits: readonly Limit[];
  readonly #instants: number[];
  #last = -Infinity;
  hasHeld = false;

  constructor({ limits, sent }: Room) {
    this.#limits = limits;
    this.#instants = [...sent];
  }

  /** The first instant from `from` behind all that were placed. */
  free(from: number): number {
    const ends = this.#limits.map(({ max, perMs }) => (this.#instants.at(-max) ?? -Infinity) + perMs);
    return Math.max(from, this.#last, ...ends);
  }

  take(at: number, isHeld: boolean): void {
    // The last ones are the likeliest place: all but the overdue are placed behind what was sent.
    this.#instants.splice(this.#instants.findLastIndex((instant) => instant <= at) + 1, 0, at);
    this.#last = at;
    this.hasHeld ||= isHeld;
  }
}
