import type { Policy } from '../domain/limits.ts';

/** Who asks, and for whom. */
export interface Ask {
  /** The recipient whose slots are asked for. */
  readonly recipientId: string;
  /** What asks; one id never holds two slots. A retry after a failed attempt is a new ask, under a new id. */
  readonly id: string;
  /** What holds for this ask; the limiter's own policy where it is left out. */
  readonly policy?: Policy;
  /**
   * A wait longer than this is refused without a trace, and what the id held before stays; no bound where it is left
   * out. Being admitted a few milliseconds ahead is no wait: 0 still allows it.
   */
  readonly maxWaitMs?: number;
  /**
   * The admission that this id was given went unused, its instant has passed: forget it, and answer as for a
   * reservation that is due now. Only for a caller that knows that nothing was sent.
   */
  readonly renew?: boolean;
}

/** Part of every answer. */
export interface Standing {
  /** The rule that decides the wait: `10/1m`, or `gap`; the policy's first where there is no wait, `none` where it has no rules. */
  readonly rule: string;
}

/** Yes: send at `at`, which is now or a few milliseconds ahead. */
export interface Admitted extends Standing {
  readonly kind: 'admitted';
  /** The slot: epoch milliseconds on the limiter's clock (Redis's). */
  readonly at: number;
  /** The same instant on this process's `performance.now()`; sleep until then, and ask anew when it is long past. */
  readonly sendAt: number;
  /** True where this id had been admitted before and is told the same again. */
  readonly repeated: boolean;
}

/** Not yet: a slot is reserved `waitMs` ahead. Come back then, and not before. */
export interface Reserved extends Standing {
  readonly kind: 'reserved';
  /** The slot: epoch milliseconds on the limiter's clock. */
  readonly at: number;
  readonly waitMs: number;
}

/** The wait is longer than `maxWaitMs`; nothing was written. */
export interface Refused extends Standing {
  readonly kind: 'refused';
  /** The wait that would have been. */
  readonly waitMs: number;
}

export type Admission = Admitted | Reserved | Refused;

/**
 * The limiter of recipients. Its promise (docs/limiter.md tells it in full, test/contract/limiter.ts asserts it):
 * exact over rolling windows, one requeue a blocked id, in order, tight, idempotent, no trace of a refusal, no residue.
 */
export interface Limiter {
  /** Asks for a slot. Rejects with LimiterUnavailableError when there was no answer; never a silent yes. */
  admit(ask: Ask): Promise<Admission>;
  /** The answer that `admit` would give, without writing anything. */
  peek(ask: Ask): Promise<Admission>;
  /** Gives back the slot of a send that certainly did not alert. True where there was one. */
  refund(recipientId: string, id: string): Promise<boolean>;
  /**
   * The alert of a used slot went out later than its slot, at `at` (epoch milliseconds on the limiter's clock, `now` at
   * the latest): from there the next ones keep their distance. True where the slot moved; it never moves to earlier.
   */
  postpone(recipientId: string, id: string, at: number): Promise<boolean>;
  /** Gives back a reservation that will not be used. True where there was one. */
  cancel(recipientId: string, id: string): Promise<boolean>;
  /** Forgets all of a recipient's slots. True where there were any. */
  reset(recipientId: string): Promise<boolean>;
}
