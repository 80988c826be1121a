import type { Platform } from '../domain/notification.ts';
import type { Trouble } from '../domain/outcome.ts';

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
  readonly id: string;
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
  /** What many such answers would tell: `outage`, `quota` (a device's), `configuration` (a bad token). */
  readonly suspect?: Trouble | undefined;
  /** The provider named a time (Retry-After). */
  readonly retryAfterMs?: number | undefined;
}

/** The circuit breakers of a worker, one for each provider. Nothing here throws, or waits for long, without Redis. */
export interface Breakers {
  /** What keeps the provider from being sent to; undefined where it is closed. Asks nobody. */
  current(platform: Platform): OpenBreaker | undefined;
  /** To be asked where `current` is not undefined. Takes a second at the most. */
  enter(platform: Platform, notificationId: string): Promise<Entry>;
  /** To be told of every answer, also of good ones; with the trial where it was sent as one. Returns at once. */
  report(evidence: Evidence, trial?: Trial): void;
  /** Nothing was sent on the trial: another notification may have it. */
  release(trial: Trial): void;
  /** When one that waits comes back: roughly in the order of enqueuing, and one first, to be the trial. Epoch ms. */
  deferUntil(platform: Platform, enqueuedAt: number): number;
  /** Asks Redis nothing more, once it knows of the trials that were released. The connection stays open. */
  close(): Promise<void>;
}

/** A breaker opened, stays open after a trial, or closed, as far as this worker has learned; undefined where it is closed. */
export interface BreakerChange {
  readonly platform: Platform;
  readonly open: OpenBreaker | undefined;
  readonly before: OpenBreaker | undefined;
}

/** What became of a trial of this worker. `unused`: nothing was sent on it. */
export interface TrialEnd {
  readonly platform: Platform;
  readonly result: 'success' | 'failure' | 'unused';
}
