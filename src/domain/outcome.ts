/**
 * What is wrong with a provider as a whole, worst first: it refuses our credentials, refuses the app or its tokens, asks
 * everybody to slow down, or is not there.
 */
export const TROUBLES = ['auth', 'configuration', 'quota', 'outage'] as const;
export type Trouble = (typeof TROUBLES)[number];

/** Why a notification cannot be delivered as it is. */
export const DEAD_LETTER_REASONS = [
  'invalid',
  'unregistered',
  'bad-token',
  'rejected',
  'provider-not-configured',
  'provider-auth',
  'attempts-exhausted',
  'ambiguous',
  'stalled',
  'throttled-too-long',
] as const;
export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number];

/** How a notification ended, for good. */
export const OUTCOMES = ['delivered', 'expired', 'dropped', 'dead-lettered'] as const;
export type OutcomeName = (typeof OUTCOMES)[number];

/**
 * How one pass of a job through a worker ended.
 *
 * | kind        | the job                        | attempts |
 * |-------------|--------------------------------|----------|
 * | delivered   | completed                      | —        |
 * | expired     | completed                      | —        |
 * | dropped     | completed                      | —        |
 * | requeued    | delayed until its slot         | +0       |
 * | held        | delayed until the provider may be back | +0 |
 * | retried     | delayed by the backoff         | +1       |
 * | yielded     | left alone: another worker has it by now | +0 |
 * | dead-letter | failed, then moved to the dead letters | — |
 */
export type Outcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'expired' }
  | { readonly kind: 'dropped'; readonly rule: string }
  /** `waitMs` until its slot, `delayMs` until a worker takes it up again, a little before. */
  | { readonly kind: 'requeued'; readonly waitMs: number; readonly delayMs: number; readonly rule: string }
  | { readonly kind: 'held'; readonly waitMs: number; readonly code: string }
  | { readonly kind: 'yielded' }
  | { readonly kind: 'retried'; readonly waitMs: number; readonly code: string }
  | { readonly kind: 'dead-letter'; readonly reason: DeadLetterReason; readonly message: string };

/** One failed try at delivering, as a dead letter tells it. Never holds a token in the clear. */
export interface FailedAttempt {
  /** Epoch milliseconds. */
  readonly at: number;
  /** Which device: `apns#0` is the first of `devices`, and on APNs. Absent where no device was tried. */
  readonly device?: string;
  readonly error: string;
}

/** The data of a job of the dead-letter queue. */
export interface DeadLetter {
  /** Exactly as it was handed over, also when it was invalid. */
  readonly notification: unknown;
  readonly reason: DeadLetterReason;
  readonly message: string;
  readonly attempts: readonly FailedAttempt[];
  /** Epoch milliseconds. */
  readonly deadAt: number;
  /** 0, and one more with each replay. */
  readonly generation: number;
  /** The devices that were alerted all the same (`apns#0`): a replay leaves them out. Absent where none was. */
  readonly delivered?: readonly string[];
}
