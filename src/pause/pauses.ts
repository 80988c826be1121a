import type { Platform } from '../domain/notification.ts';
import type { Trouble } from '../domain/trouble.ts';

/** A provider that nobody sends to for a while; all workers of a prefix share it. */
export interface Pause {
  readonly platform: Platform;
  readonly trouble: Trouble;
  /** The answer that opened it, or made it longer: `InvalidProviderToken`, `QUOTA_EXCEEDED`, `connection-refused`. */
  readonly code: string;
  /** When the trouble began, and until when nothing is sent; epoch milliseconds on this machine's clock. */
  readonly since: number;
  readonly until: number;
}

/** The right to find out whether a paused provider is back: one send, held by one job of one worker. */
export interface Probe {
  readonly platform: Platform;
  readonly id: string;
}

/** Whether a send may go: the provider is open, this one may find out, or it has to wait. */
export type Entry =
  | { readonly kind: 'open' }
  | { readonly kind: 'probe'; readonly probe: Probe }
  | { readonly kind: 'paused'; readonly pause: Pause };

/** A pause opened, changed or ended, as far as one worker has learned. */
export interface PauseChange {
  readonly platform: Platform;
  /** As it is now; undefined where the provider is open again. */
  readonly pause: Pause | undefined;
  /** As it was when it was last told of; undefined where the provider was open. */
  readonly before: Pause | undefined;
  /** Whether it was an answer to this worker that changed it. */
  readonly by: 'us' | 'others';
}

/** What one answer of a provider says about the provider as a whole. */
export interface Evidence {
  readonly platform: Platform;
  /** An outage is believed only where it meets several notifications. */
  readonly notificationId: string;
  readonly code: string;
  /** Absent: the provider answered, so it is well. */
  readonly trouble?: Trouble | undefined;
  /** The provider named a time (Retry-After). */
  readonly retryAfterMs?: number | undefined;
}

/**
 * The pauses of providers, one for each, shared by all workers. A pause opens on evidence, lets one send at a time through
 * when its time is over, doubles where that fails, and ends where it does not. Nothing here throws for want of Redis:
 * each worker then goes by what it has seen itself.
 */
export interface Pauses {
  /**
   * What this worker knows, without asking anybody; undefined where the provider is open. A pause lasts until a probe has
   * found the provider well, so its `until` may have passed.
   */
  current(platform: Platform): Pause | undefined;
  /**
   * To be asked before each send. Answers at once where the provider is open or paused; Redis is asked for a probe only, and
   * for a second at the most. Where another one probes, the `until` of the answer is a second from now.
   */
  enter(platform: Platform): Promise<Entry>;
  /** Tells what came of a send. With a probe, ends it: the pause is over, or longer. */
  report(evidence: Evidence, probe?: Probe): void;
  /** Nothing was sent on the probe: another one may have it. */
  release(probe: Probe): void;
  /**
   * When a notification that is kept for this provider comes back: epoch milliseconds on this machine's clock. One
   * comes when the pause is over, to be its probe; all others a little later, in the order in which they were enqueued.
   *
   * @param enqueuedAt epoch milliseconds
   */
  comeBackAt(platform: Platform, enqueuedAt: number): number;
  /** Gives back the probes that are out and asks Redis nothing more. Its connection stays open. */
  close(): Promise<void>;
}
