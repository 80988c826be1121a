/** A pass that ends with one of these codes got no slot. */
export const WITHOUT_SLOT_CODES = ['limiter-unavailable', 'replicas-missing'] as const;
export type WithoutSlotCode = (typeof WITHOUT_SLOT_CODES)[number];

/** Asks that got no slot because the limiter's Redis or its replicas did not answer; no ask has got a slot since. */
export interface WithoutSlot {
  /** The code of the last such ask. */
  readonly code: WithoutSlotCode;
  /** When the first such ask ended: epoch milliseconds on this machine's clock. */
  readonly since: number;
  /** When the last such ask ended. */
  readonly lastAt: number;
}

/** Knows whether this worker gets slots. */
export interface SlotWatch {
  /** An ask ended: with a slot, with another answer of the limiter, or without an answer that can be used. */
  asked(end: 'slot' | 'answer' | WithoutSlotCode): void;
  /** Undefined if the last ask got a slot, or after a minute without an ask: another worker may have the jobs that failed. */
  current(): WithoutSlot | undefined;
}

/** An ask that failed is repeated after 1 to 2 s, by any worker. */
const FORGOTTEN_MS = 60_000;

export function createSlotWatch(now: () => number = Date.now): SlotWatch {
  let found: WithoutSlot | undefined;

  function current(): WithoutSlot | undefined {
    return found !== undefined && now() - found.lastAt < FORGOTTEN_MS ? found : undefined;
  }

  return {
    current,
    asked(end) {
      // An answer without a slot shows that the limiter answers, but shows nothing about its replicas.
      if (end === 'slot' || (end === 'answer' && found?.code === 'limiter-unavailable')) found = undefined;
      if (end === 'slot' || end === 'answer') return;
      const at = now();
      found = { code: end, since: current()?.since ?? at, lastAt: at };
    },
  };
}
