import type { Pause } from './pauses.ts';

/** When notifications that are kept for a provider come back. All times are epoch milliseconds on this machine's clock. */
export interface ComeBack {
  /** @param pause undefined where the provider is open */
  next(pause: Pick<Pause, 'since' | 'until'> | undefined, enqueuedAt: number, now: number): number;
  /** The pause is another one, or longer: the count begins again. */
  reset(): void;
}

/** Nothing comes back sooner: clocks differ, and a loop must not run hot. */
export const LEAST_MS = 250;
/** All others come when the probe has most likely been answered. */
export const BEHIND_MS = 1_000;
/** BullMQ keeps the order of 4,096 delayed jobs of one millisecond; several workers share that. */
const PER_MS = 1_000;
/**
 * They come in the order in which they were enqueued, not in that in which they happened to be kept: a millisecond later
 * for each so many that they are younger. So an hour of notifications takes three minutes to come back.
 */
const ENQUEUED_PER_MS = 20;
/** What was enqueued so long before the trouble began comes first, in the order in which it was kept. */
const EARLIER_MS = 10_000;
const MAX_PLACE_MS = 600_000;

export function createComeBack(): ComeBack {
  let hasProbe = false;
  let behind = 0;
  return {
    next(pause, enqueuedAt, now) {
      if (pause === undefined) return now + LEAST_MS;
      const { since, until } = pause;
      // Who came after the trouble began has others before it, and does not go ahead of them as the probe.
      if (!hasProbe && enqueuedAt <= since) {
        hasProbe = true;
        return Math.max(until, now + LEAST_MS);
      }
      const place = Math.floor((enqueuedAt - since + EARLIER_MS) / ENQUEUED_PER_MS);
      const inLine = Math.min(Math.max(0, place), MAX_PLACE_MS) + Math.floor(behind / PER_MS);
      behind += 1;
      return Math.max(until, now) + BEHIND_MS + inLine;
    },
    reset() {
      hasProbe = false;
      behind = 0;
    },
  };
}
