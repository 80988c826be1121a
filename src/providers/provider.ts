import type { Device, Notification, Platform } from '../domain/notification.ts';
import type { Trouble } from '../domain/outcome.ts';

/** One alert for one device. */
export interface Push {
  readonly notification: Notification;
  readonly device: Device;
  /** A UUID, the same for every attempt at this device, so that a provider or an app can see a repetition. */
  readonly pushId: string;
  /** Deliver without sound, vibration or banner. */
  readonly silent: boolean;
}

/** What a provider's answer means for the device. */
export type Meaning =
  /** The provider took it. */
  | 'accepted'
  /** The token is no longer valid: it is reported to the producer and never tried again. */
  | 'gone'
  /** The token was never valid for this app. */
  | 'bad-token'
  /** The provider refuses the payload. */
  | 'rejected'
  /** Not now; a later try may succeed. */
  | 'later';

/** The answer to one send to one device. */
export interface Reply {
  readonly meaning: Meaning;
  /** The provider's own code (`Unregistered`, `QUOTA_EXCEEDED`), or one of replies.ts (`timeout`, `connection-refused`). */
  readonly code: string;
  /** Whether the recipient may have been alerted. The slot is given back only for `no`. */
  readonly alerted: 'yes' | 'no' | 'maybe';
  /** Do not try again sooner than this, in milliseconds: Retry-After, or the least wait for this kind of reply. */
  readonly retryAfterMs?: number;
  /** Nobody knows whether it was processed (a timeout, a reset): worth one or two more attempts, no more. */
  readonly ambiguous?: boolean;
  /** The request certainly did not reach the provider. It costs no attempt. */
  readonly unsent?: boolean;
  /** What the answer proves about the provider as a whole. Absent if it is about this device alone. */
  readonly trouble?: Trouble;
  /** What many answers like this one, for different recipients, would prove about the provider. */
  readonly suspect?: Trouble;
  /**
   * The app's set-up at the provider is at fault, for devices like this one and not for others: no attempt is spent, and no
   * breaker opens.
   */
  readonly setUp?: boolean;
  /** When the token became invalid, in epoch milliseconds (only APNs says it). */
  readonly goneSince?: number;
  /** More text for a person to read; tokens are redacted. */
  readonly detail?: string;
}

/** A push as a request to its provider, ready to be sent. */
export interface Encoded {
  readonly push: Push;
  /** The server that it goes to, for a provider with several: `https://fcm.googleapis.com`. */
  readonly origin?: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | number>>;
  /** JSON, or encrypted bytes. */
  readonly body: string | Buffer;
}

/** Encoded, or refused before the provider saw it (a payload over its limit). */
export type Prepared =
  { readonly kind: 'ready'; readonly encoded: Encoded } | { readonly kind: 'refused'; readonly reply: Reply };

/** A free stream on a connection, and credentials that are valid: a send with it does not wait. */
export interface Permit {
  /** Gives the stream back. Does nothing once the permit was used. */
  release(): void;
}

/** A permit, or the reply that says why there is none; nothing was sent then. */
export type Reserved =
  { readonly kind: 'permit'; readonly permit: Permit } | { readonly kind: 'none'; readonly reply: Reply };

/** How a push is sent. */
export interface SendOptions {
  /** The send uses it up. Without one the send waits for a stream. */
  readonly permit?: Permit | undefined;
  /** A push that no connection has taken by then (`performance.now()`) is not sent at all. */
  readonly sendBy?: number | undefined;
}

/** Whether a server of a provider can be reached. */
export interface Reach {
  /** Host and port: `api.push.apple.com:443`. */
  readonly host: string;
  /** On a platform whose devices name their servers (web push): which one it is, as in the name of its circuit breaker. */
  readonly server?: string;
  /** It is the server of a sign-in, without which nothing can be sent. */
  readonly isSignIn?: true;
  /** Why the latest try failed. Absent if it was reached. */
  readonly failure?: ReachFailure;
}

/** No connection is open, and the latest try to make one failed. */
export interface ReachFailure {
  /** The error code of the system or of TLS: `ENOTFOUND`, `ECONNREFUSED`, `CERT_HAS_EXPIRED`; or `HTTP 503`. */
  readonly cause: string;
  /** The error's message; without anything that is private. */
  readonly detail?: string;
  /** How long ago the first try began that failed, milliseconds. None has succeeded since. */
  readonly forMs: number;
}

/** One push service. Its methods never throw: every failure is a Reply. */
export interface Provider {
  readonly platform: Platform;
  /** Checks the size and encodes. All slow work is done here, before the limiter is asked. */
  prepare(push: Push): Prepared;
  /**
   * Waits for a free stream to the request's server and valid credentials. The wait has no bound, but ends if no connection
   * can be made.
   */
  reserve(encoded: Pick<Encoded, 'origin'>): Reserved | Promise<Reserved>;
  /** Sends one request. It is repeated only once, and only if the provider says that the credentials have expired. */
  send(encoded: Encoded, options?: SendOptions): Promise<Reply>;
  /**
   * Connects and signs in ahead of the first send, and keeps connected until `close`. Sends nothing. A provider that learns
   * its servers only from the devices connects with the first `reserve` or `send`.
   */
  connect(): Promise<void>;
  /** The servers that were tried and are still in use. Asks nobody. */
  reach(): readonly Reach[];
  /** Ends all sends that wait or are under way, with the code `cancelled` or `aborted`. */
  abort(): void;
  /** Waits for the sends under way; later ones are answered with the code `closed`. */
  close(): Promise<void>;
}
