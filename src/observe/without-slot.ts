/** Why asks get no slot: the results of passes with these codes. */
export const WITHOUT_SLOT_CODES = ['limiter-unavailable', 'replicas-missing'] as const;
export type WithoutSlotCode = (typeof WITHOUT_SLOT_CODES)[number];

/** Asks that ended without a slot, because the limiter's Redis or its replicas did not answer, and none got one since. */
export interface WithoutSlot {
  /** Of the last one. */
  readonly code: WithoutSlotCode;
  /** The first one: epoch milliseconds on this machine's clock. */
  readonly since: number;
  /** The last one. */
  readonly lastAt: number;
}

/** Whether this replica gets slots. */
export interface SlotWatch {
  /** An ask ended: with a slot, with another answer of the limiter, or without an answer that can be used. */
  asked(end: 'slot' | 'answer' | WithoutSlotCode): void;
  /** Undefined if the last ask got a slot, and if nothing was asked for a minute: others may have what failed here. */
  current(): WithoutSlot | undefined;
}

/** What failed is asked again after 1 to 2 s, by any worker. */
const FORGOTTEN_MS = 60_000;

export function createSlotWatch(now: () => number = Date.now): SlotWatch {
  let found: WithoutSlot | undefined;

  function current(): WithoutSlot | undefined {
    return found !== undefined && now() - found.lastAt < FORGOTTEN_MS ? found : undefined;
  }

  return {
    current,
    asked(end) {
      // An answer that is no slot says that the limiter is there, and nothing of its replicas.
      if (end === 'slot' || (end === 'answer' && found?.code === 'limiter-unavailable')) found = undefined;
      if (end === 'slot' || end === 'answer') return;
      const at = now();
      found = { code: end, since: current()?.since ?? at, lastAt: at };
    },
  };
}
