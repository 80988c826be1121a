import type { Policy } from '../domain/limits.ts';

/** What a slot is held for, and under which id. */
export interface Held {
  /** The recipient whose slots are asked for. */
  readonly recipientId: string;
  /** What asks; one id never holds two slots. A retry after a failed attempt is a new ask, under a new id. */
  readonly id: string;
  /** The category that was asked with: where it has a policy of its own, the slot is taken, and given back, in both. */
  readonly category?: string;
}

/** Who asks, for whom, and how long it would wait. */
export interface Ask extends Held {
  /**
   * What holds for this ask overall; the limiter's own policy where it is left out. A policy that is stored for the
   * recipient (`limit`) goes before both.
   */
  readonly policy?: Policy;
  /**
   * A wait longer than this is refused without a trace, and what the id held before stays; no bound where it is left
   * out. Being admitted a few milliseconds ahead is no wait: 0 still allows it.
   */
  readonly maxWaitMs?: number;
  /** Where so many reservations wait already, one more is refused without a trace. Who holds a slot keeps it. */
  readonly maxPending?: number;
  /**
   * The admission that this id was given went unused, its instant has passed: forget it, and answer as for a
   * reservation that is due now. Only for a caller that knows that nothing was sent.
   */
  readonly renew?: boolean;
  /** The answer is to tell what every rule has left (`rules`), not only the one that decides. Takes Redis a little longer. */
  readonly everyRule?: boolean;
}

/** What one rule has left now. */
export interface RuleStanding {
  /** `10/1m`, `gap`, `messages:10/1m`. */
  readonly rule: string;
  /** At most so many slots in any `perMs`. */
  readonly max: number;
  readonly perMs: number;
  /** How many more it has room for. An admission counts; an ask that waits or is refused does not, even with `countBlocked`. */
  readonly remaining: number;
  /** Until it has room for one more than `remaining`; 0 where nothing is counted. */
  readonly resetMs: number;
}

/** Part of every answer. */
export interface Standing {
  /**
   * The rule that decides: `10/1m`, `gap` or `block`; `messages:10/1m` for one of a category's; `none` where there are
   * no rules, `unavailable` where the limiter is away and open. Of a wait, the rule that makes it. Of an admission, the rule that makes the next one wait longest, or the
   * first rule where none would.
   */
  readonly rule: string;
  /** How many more slots that rule has room for now, those sent and this answer's counted; 0 for a wait, Infinity for `none`. */
  readonly remaining: number;
  /** Until that rule has room for one more than `remaining`: of a wait, the wait; 0 where nothing is counted. */
  readonly resetMs: number;
  /** How far from its slot an id may come back and still go, under the policies in force (docs/limiter.md). */
  readonly toleranceMs: number;
  /** The least time between two slots that the policies in force ask for; 0 for none. */
  readonly gapMs: number;
  /** Every rule in force, the overall ones first, each gap before the windows; present where the ask wants it (`everyRule`). */
  readonly rules?: readonly RuleStanding[];
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

/** The wait is longer than `maxWaitMs`, or `maxPending` wait already; nothing was written. */
export interface Refused extends Standing {
  readonly kind: 'refused';
  readonly because: 'max-wait' | 'max-pending';
  /** The wait that would have been. */
  readonly waitMs: number;
}

export type Admission = Admitted | Reserved | Refused;

/** Nobody alerts the recipient before `until`. */
export interface Block {
  /** Epoch milliseconds on the limiter's clock; at most 366 days ahead. */
  readonly until: number;
  /** For people to read: 1 to 500 characters. */
  readonly reason: string;
}

/** A slot as `inspect` tells it. */
export interface SlotView {
  /** Epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** The id that holds it; absent for a sent one unless the limiter keeps ids. */
  readonly id?: string;
}

/** What the limiter knows about one recipient. Instants are epoch milliseconds on its clock. */
export interface Inspection {
  readonly now: number;
  /** The overall policy in force. */
  readonly policy: Policy;
  /** Where it comes from: this limiter's options, or stored for the recipient with `limit`. */
  readonly source: 'limiter' | 'stored';
  /** When a stored policy ends; absent where it has no end. */
  readonly policyUntil?: number;
  /** Absent where the recipient is not blocked. */
  readonly block?: Block;
  /** Slots sent within the longest window, oldest first. */
  readonly sent: readonly SlotView[];
  /** Slots reserved and still waited for, the next first. */
  readonly reserved: readonly SlotView[];
  /** When a newcomer could go, and the rule that decides it. */
  readonly nextAt: number;
  readonly rule: string;
}

/**
 * The limiter of recipients. Its promise (docs/limiter.md tells it in full, test/contract/limiter.ts asserts it):
 * exact over rolling windows, one requeue a blocked id, in order, tight, idempotent, no trace of a refusal, no residue.
 * Every call rejects with LimiterUnavailableError when there was no answer, with InputError where it makes no sense.
 */
export interface Limiter extends Oversight {
  /** Asks for a slot. Never a silent yes. */
  admit(ask: Ask): Promise<Admission>;
  /** The answer that `admit` would give, without writing anything. */
  peek(ask: Ask): Promise<Admission>;
  /** Gives back the slot of a send that certainly did not alert. True where there was one. */
  refund(held: Held): Promise<boolean>;
  /**
   * The alert of a used slot went out later than its slot, at `at` (epoch milliseconds on the limiter's clock, `now` at
   * the latest): from there the next ones keep their distance. True where the slot moved; it never moves to earlier.
   */
  postpone(held: Held, at: number): Promise<boolean>;
  /** Gives back a reservation that will not be used. True where there was one. */
  cancel(held: Held): Promise<boolean>;
}

/** One that waits, and that an operator's act has moved. */
export interface Moved {
  /** Absent where the limiter keeps only a digest: ids of more than 160 characters, or of others than visible ASCII. */
  readonly id?: string;
  /** Its category, where that has a policy of its own. */
  readonly category?: string;
  /** The slot that it was told: epoch milliseconds on the limiter's clock. */
  readonly from: number;
  /** The slot that it has now. */
  readonly at: number;
}

/** How the caller of an operator's act hears of those that it moves. */
export interface Follow {
  /**
   * Told who has moved, part by part: each part when it is done, and the next one waits until the promise settles. Who
   * is moved to earlier and is told by nobody comes late. One that moves twice is told twice.
   */
  readonly onMoved?: ((moved: readonly Moved[]) => void | Promise<void>) | undefined;
  /** Nobody is moved to earlier than this from now (ms), so that those who are told can still be on time; 0. */
  readonly leadMs?: number | undefined;
}

/**
 * What an operator does to one recipient; in force at once for every process that shares the limiter. Then all that wait are given
 * their earliest places under what is in force now, later or earlier, in their order. Who comes back at its old slot meanwhile,
 * or later, is told where it stands.
 */
export interface Oversight {
  /** Stores an overall policy for this recipient, until `until` where it is given (epoch milliseconds, ahead of now). */
  limit(recipientId: string, policy: Policy, options?: Follow & { readonly until?: number }): Promise<void>;
  /** Forgets the stored policy. True where there was one. */
  unlimit(recipientId: string, follow?: Follow): Promise<boolean>;
  /** Blocks the recipient: nobody goes before the end of the block. */
  block(recipientId: string, block: Block, follow?: Follow): Promise<void>;
  /** Ends the block. True where there was one. */
  unblock(recipientId: string, follow?: Follow): Promise<boolean>;
  /**
   * Forgets what was sent to a recipient: it counts no longer. A stored policy and a block stay, and so do those that wait.
   * True where anything was sent.
   */
  reset(recipientId: string, follow?: Follow): Promise<boolean>;
  /** What is known about the recipient, without writing anything. */
  inspect(recipientId: string): Promise<Inspection>;
}
