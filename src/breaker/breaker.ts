import type { Platform } from '../domain/notification.ts';
import type { Trouble } from '../domain/trouble.ts';

/** A provider that nothing is sent to for now. All times are epoch milliseconds. */
export interface OpenBreaker {
  readonly platform: Platform;
  readonly trouble: Trouble;
  /** The answer that opened it, or kept it open: `InvalidProviderToken`, `QUOTA_EXCEEDED`, `connection-refused`. */
  readonly code: string;
  /** When it opened, on the clock of the worker that met the trouble. */
  readonly since: number;
  /** On this machine's clock. Once it has passed the breaker is half open, until a trial has been answered. */
  readonly until: number;
}

/** The right of one notification to find out whether the provider is back. Ends by `report`, `release`, or after 20 s. */
export interface Trial {
  readonly platform: Platform;
  readonly notificationId: string;
  readonly id: string;
  /** Whether it is the one trial of all workers, or this worker's own in an outage. */
  readonly isShared: boolean;
}

/** Whether a notification may be sent: the breaker is closed, this one may find out, or it has to wait. */
export type Entry =
  | { readonly kind: 'closed' }
  | { readonly kind: 'trial'; readonly trial: Trial }
  | { readonly kind: 'open'; readonly open: OpenBreaker };

/** What one answer says about the provider as a whole. */
export interface Evidence {
  readonly platform: Platform;
  readonly notificationId: string;
  readonly recipientId: string;
  readonly code: string;
  /** Certain, and about all of us: `auth`, `configuration`, `quota` (of the project). */
  readonly trouble?: Trouble | undefined;
  /**
   * What many such answers together would tell: `outage` (5xx, timeouts, refused connections), `quota` (a device's),
   * `configuration` (a wrong topic, a bad token).
   */
  readonly suspect?: Trouble | undefined;
  /** The provider named a time (Retry-After). */
  readonly retryAfterMs?: number | undefined;
}

/**
 * The circuit breakers of a worker, one for each provider. Nothing here throws or waits for long where Redis does not
 * answer: the worker then goes by what it has met itself. The rules are in docs/circuit-breakers.md.
 */
export interface Breakers {
  /** What keeps the provider from being sent to; undefined where it is closed. Asks nobody. */
  current(platform: Platform): OpenBreaker | undefined;
  /**
   * To be asked where `current` is not undefined. While another notification is the trial, the `until` of the answer is a
   * second from now. Takes a second or two at the most.
   */
  enter(platform: Platform, notificationId: string): Promise<Entry>;
  /**
   * To be told of every answer, also of good ones, which have neither `trouble` nor `suspect`. Cheap; returns at once.
   *
   * @param trial where the notification was sent as one
   */
  report(evidence: Evidence, trial?: Trial): void;
  /** Nothing was sent on the trial: another notification may have it. */
  release(trial: Trial): void;
  /**
   * When a notification that waits for the provider comes back, in epoch milliseconds on this machine's clock: roughly in
   * the order of enqueuing, and one of them first, to be the trial.
   *
   * @param enqueuedAt epoch milliseconds
   */
  deferUntil(platform: Platform, enqueuedAt: number): number;
  /** Gives back the trials that are under way and asks Redis nothing more. The connection stays open. */
  close(): Promise<void>;
}

/** A breaker opened, stays open for longer, got another label, or closed, as far as this worker has learned. */
export interface BreakerChange {
  readonly platform: Platform;
  /** As it is now; undefined where it closed. */
  readonly open: OpenBreaker | undefined;
  /** As it was before; undefined where it was closed. */
  readonly before: OpenBreaker | undefined;
}

/** What became of a trial of this worker. `unused`: nothing was sent on it. */
export interface TrialEnd {
  readonly platform: Platform;
  readonly result: 'success' | 'failure' | 'unused';
}
