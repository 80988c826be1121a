import type { Device, Notification, Platform } from '../domain/notification.ts';
import type { Trouble } from '../domain/trouble.ts';

/** One alert for one device. */
export interface Push {
  readonly notification: Notification;
  readonly device: Device;
  /** The same for every try at this device, so that a provider or an app can tell a repetition: a UUID, see push-id.ts. */
  readonly pushId: string;
  /** Deliver without sound, vibration or banner. */
  readonly silent: boolean;
}

/** What a provider's answer means for the device. */
export type Meaning =
  /** The provider took it. */
  | 'accepted'
  /** The token is no longer valid: report it to the producer, never try it again. */
  | 'gone'
  /** The token was never valid for this app. */
  | 'bad-token'
  /** The provider refuses the payload. */
  | 'rejected'
  /** Our credentials are refused: nothing is wrong with the notification. */
  | 'auth'
  /** Not now; a later try may succeed. */
  | 'later';

/** The answer to one try at one device. */
export interface Reply {
  readonly meaning: Meaning;
  /** The provider's own word, or ours for what has none: `Unregistered`, `QUOTA_EXCEEDED`, `timeout`, `connection-refused`. */
  readonly code: string;
  /** Whether the recipient may have been alerted; only `no` lets the slot be given back. */
  readonly alerted: 'yes' | 'no' | 'maybe';
  /** Do not try again sooner: Retry-After, or the least wait that the reply's kind asks for. */
  readonly retryAfterMs?: number;
  /** Nothing tells whether it was processed (a timeout, a reset): worth one or two more tries, no more. */
  readonly ambiguous?: boolean;
  /** The request certainly never got there: trying has not begun, and costs no attempt. */
  readonly unreached?: boolean;
  /** What it says about the provider as a whole; absent where it is about this device or this notification alone. */
  readonly trouble?: Trouble;
  /** Epoch milliseconds since when the token has been gone (APNs tells it). */
  readonly goneSince?: number;
  /** More about it for a person; tokens are redacted. */
  readonly detail?: string;
}

/** When a send may leave. */
export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** What has not left this machine by then (`performance.now()`) must not leave any more: its slot would be over. */
  readonly leaveBy?: number | undefined;
}

/** Encoded and ready to go, or refused before the provider saw it (a payload over its limit). */
export type Prepared =
  | { readonly kind: 'ready'; readonly send: (options?: SendOptions) => Promise<Reply> }
  | { readonly kind: 'refused'; readonly reply: Reply };

/** One push service. `send` answers, it does not throw: every failure is a Reply. */
export interface Provider {
  readonly platform: Platform;
  /** All that can be done before the limiter is asked, so that nothing slow stands between admission and send. */
  prepare(push: Push): Prepared;
  /**
   * Opens connections ahead of the first send, and keeps them open until `close`, so that no alert waits for a handshake.
   * Alerts nobody; never throws.
   */
  warm(): Promise<void>;
  /** Waits for the sends under way; later ones are answered with the code `closed`. */
  close(): Promise<void>;
}
