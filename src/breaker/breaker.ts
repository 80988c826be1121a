import type { Account, Service } from '../notification/device.ts';
import type { Trouble } from '../notification/outcome.ts';

/** An open circuit breaker: nothing is sent to this service. All times are epoch milliseconds. */
export interface OpenBreaker {
  readonly service: Service;
  readonly trouble: Trouble;
  /**
   * The code of the answer that opened the breaker, or kept it open: `InvalidProviderToken`, `QUOTA_EXCEEDED`,
   * `connection-refused`.
   */
  readonly code: string;
  /** When the breaker opened, on the clock of the worker that met the trouble. */
  readonly since: number;
  /** The end of the open time, on this machine's clock. Then the breaker is half open until a trial has been answered. */
  readonly until: number;
}

/** A trial lets one notification through a breaker that is not closed. It ends by `report` or `release`, or after 20 s. */
export interface Trial {
  readonly service: Service;
  readonly id: string;
}

/** Whether a notification may be sent: yes (`closed`), yes as the trial, or not yet (`open`). */
export type BreakerAnswer =
  | { readonly kind: 'closed' }
  | { readonly kind: 'trial'; readonly trial: Trial }
  | { readonly kind: 'open'; readonly open: OpenBreaker };

/** What one answer says about the service as a whole. */
export interface Evidence {
  readonly service: Service;
  readonly recipientId: string;
  readonly code: string;
  /** Trouble that is certain, and the same for all workers: `auth`, `configuration`, `quota` (of the project). */
  readonly trouble?: Trouble | undefined;
  /** Trouble that many such answers together would prove: `outage`, `quota` (a device's), `configuration` (a bad token). */
  readonly suspect?: Trouble | undefined;
  /** The provider's Retry-After. */
  readonly retryAfterMs?: number | undefined;
}

/** The circuit breakers of a worker, one for each service. If Redis does not answer, nothing here throws or waits for long. */
export interface Breakers {
  /**
   * Sets the accounts from now on, in addition to the accounts of the environment's app. Breakers of all other accounts count
   * as closed.
   */
  use(accounts: Iterable<Account>): void;
  /** Every breaker: its open state, or undefined if it is closed. */
  all(): Iterable<readonly [Service, OpenBreaker | undefined]>;
  /** The service's open breaker, or undefined if it is closed. Does not ask Redis. */
  current(service: Service): OpenBreaker | undefined;
  /** Whether the service gave this worker a good answer in the last half a minute. Does not ask Redis. */
  hasAnsweredWell(service: Service): boolean;
  /** Asks whether this recipient's notification may be sent. Call it if `current` is not undefined. Takes a second at most. */
  enter(service: Service, recipientId: string): Promise<BreakerAnswer>;
  /** Call it with every answer, good ones too, and with the trial if the send was a trial. Returns at once. */
  report(evidence: Evidence, trial?: Trial): void;
  /** Call it if nothing was sent on the trial: another notification may then be the trial. */
  release(trial: Trial): void;
  /**
   * When a deferred notification comes back (epoch milliseconds): first a notification that may be the trial, then the others
   * roughly in the order of enqueuing.
   */
  deferUntil(service: Service, deferred: Deferred): number;
  /** Writes released trials to Redis, and then asks Redis nothing more. The connection stays open. */
  close(): Promise<void>;
}

/** A notification that is not sent now. */
export interface Deferred {
  readonly recipientId: string;
  /** Epoch milliseconds. */
  readonly enqueuedAt: number;
}

/** A change of a breaker as this worker sees it: opened, still open after a failed trial, or closed (`open` is undefined). */
export interface BreakerChange {
  readonly service: Service;
  readonly open: OpenBreaker | undefined;
  readonly before: OpenBreaker | undefined;
  /** A trial of this worker closed the breaker. Absent if another worker closed it, or if the state is gone from Redis. */
  readonly byTrial?: true;
}

/** How a trial of this worker ended. `unused`: nothing was sent on the trial. */
export interface TrialEnd {
  readonly service: Service;
  readonly result: 'success' | 'failure' | 'unused';
}
