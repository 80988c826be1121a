import { doubledMs } from '../domain/time.ts';

/** What a retry waits for. */
export interface Backoff {
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
}

/** How often, and how soon, an attempt that failed is repeated. */
export interface RetryPolicy extends Backoff {
  /** Delivery attempts before a dead letter. */
  readonly attempts: number;
}

/**
 * The wait before the next attempt, in milliseconds: base x 2^(tries - 1), at most the maximum, the upper half of it
 * drawn by chance so that what failed together does not come back together. What a provider asked for
 * (`atLeastMs`, Retry-After) is never undercut: up to a tenth is added to it by chance, and it doubles the same way.
 */
export function backoffMs(tries: number, backoff: Backoff, atLeastMs: number, random: number): number {
  const own = doubledMs(backoff.backoffBaseMs, backoff.backoffMaxMs, tries - 1) * (0.5 + random / 2);
  const asked = atLeastMs * (1 + random / 10);
  return Math.round(Math.max(own, asked));
}
