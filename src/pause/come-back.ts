/** When notifications that are kept for a provider come back. */
export interface ComeBack {
  /** `until`: of the pause, undefined where the provider is open. Both are epoch milliseconds on this machine's clock. */
  next(until: number | undefined, now: number): number;
  /** The pause is another one, or longer: the count begins again. */
  reset(): void;
}

/** Nothing comes back sooner: clocks differ, and a loop must not run hot. */
export const LEAST_MS = 250;
/** They come when the pause is over: one to be the probe, one in its stead should it have expired meanwhile. */
const FIRST = 2;
/** All others come when the probe has most likely been answered. */
export const BEHIND_MS = 1_000;
/** BullMQ keeps the order of 4,096 delayed jobs of one millisecond; several workers share that. */
const PER_MS = 1_000;

export function createComeBack(): ComeBack {
  let kept = 0;
  return {
    next(until, now) {
      if (until === undefined) return now + LEAST_MS;
      const behind = kept - FIRST;
      kept += 1;
      if (behind < 0) return Math.max(until, now + LEAST_MS);
      return Math.max(until, now) + BEHIND_MS + Math.floor(behind / PER_MS);
    },
    reset() {
      kept = 0;
    },
  };
}
