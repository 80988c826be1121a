import { doubledMs } from '../domain/time.ts';

/** The waits between retries: the first one, and the longest. */
export interface Backoff {
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
}

/** How often, and how soon, an attempt that failed is repeated. */
export interface RetryPolicy extends Backoff {
  /** Attempts before the notification becomes a dead letter. */
  readonly attempts: number;
}

/**
 * The wait before the next attempt, in milliseconds: base x 2^(tries - 1), at most the maximum. The upper half of it is
 * random, so that notifications that failed together do not come back together. It is never shorter than what a provider
 * asked for (`atLeastMs`, Retry-After), to which up to a tenth is added at random.
 */
export function backoffMs(tries: number, backoff: Backoff, atLeastMs: number, random: number): number {
  const own = doubledMs(backoff.backoffBaseMs, backoff.backoffMaxMs, tries - 1) * (0.5 + random / 2);
  const asked = atLeastMs * (1 + random / 10);
  return Math.round(Math.max(own, asked));
}

/** The longest wait after a stall. */
const MAX_STALL_SPREAD_MS = 60_000;

/** The wait of a job that stalled for the second time or more, in milliseconds: random, up to lockMs x 2^(stalls - 2). */
export function stallSpreadMs(stalls: number, lockMs: number, random: number): number {
  return Math.ceil(random * doubledMs(lockMs, MAX_STALL_SPREAD_MS, stalls - 2));
}
