import type { State } from './state.ts';

/** When those who wait for one provider come back. All times are epoch milliseconds on this machine's clock. */
export interface Line {
  /** @param open undefined where the breaker is closed */
  next(open: State | undefined, enqueuedAt: number, now: number): number;
}

/** Redis begins to count a round trip later than the worker that opened the breaker. */
export const FIRST_AFTER_MS = 100;
/** When the trial has most likely been answered. */
export const OTHERS_AFTER_MS = 1_000;
/** They come in the order of enqueuing: an hour of notifications takes three minutes. */
const ENQUEUED_PER_MS = 20;
const MAX_PLACE_MS = 600_000;

export function createLine(): Line {
  let change = '';
  /** How many of those that ask next come back as soon as the breaker is half open, to be the trial. */
  let firsts = 0;
  return {
    next(open, enqueuedAt, now) {
      if (open === undefined) return now + FIRST_AFTER_MS;
      // The notification whose trial failed is among those that ask, and will let another one go first.
      if (open.change !== change) firsts = open.failedId === null ? 1 : 2;
      change = open.change;
      const halfOpenAt = Math.max(now, open.until);
      if (firsts > 0) {
        firsts -= 1;
        return halfOpenAt + FIRST_AFTER_MS;
      }
      const place = Math.max(0, Math.floor((enqueuedAt - open.since) / ENQUEUED_PER_MS));
      return halfOpenAt + OTHERS_AFTER_MS + Math.min(place, MAX_PLACE_MS);
    },
  };
}
