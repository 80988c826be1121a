import { hash } from 'node:crypto';
import type { Device, Notification, Platform } from '../domain/notification.ts';
import type { Trouble } from '../domain/outcome.ts';

/** One alert for one device. */
export interface Push {
  readonly notification: Notification;
  readonly device: Device;
  /** The same for every try at this device, so that a provider or an app can tell a repetition: a UUID, see pushId. */
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
  /** Not now; a later try may succeed. */
  | 'later';

/** The answer to one try at one device. */
export interface Reply {
  readonly meaning: Meaning;
  /** The provider's own word, or ours for what has none: `Unregistered`, `QUOTA_EXCEEDED`, `timeout`, `connection-refused`. */
  readonly code: string;
  /** Whether the recipient may have been alerted; only `no` lets the slot be given back. */
  readonly alerted: 'yes' | 'no' | 'maybe';
  /** Do not try again sooner, milliseconds: Retry-After, or the least wait that the reply's kind asks for. */
  readonly retryAfterMs?: number;
  /** Nothing tells whether it was processed (a timeout, a reset): worth one or two more tries, no more. */
  readonly ambiguous?: boolean;
  /** The provider certainly did not process it, because the request did not get there. It costs no attempt. */
  readonly unsent?: boolean;
  /** What it says for certain about all that we send to this provider. Absent where it is about this device alone. */
  readonly trouble?: Trouble;
  /** What many answers like this one, to different recipients, would say about the provider. */
  readonly suspect?: Trouble;
  /** Epoch milliseconds since when the token has been gone (APNs tells it). */
  readonly goneSince?: number;
  /** More about it for a person; tokens are redacted. */
  readonly detail?: string;
}

/** A push as its provider takes it, ready to be sent. */
export interface Encoded {
  readonly push: Push;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | number>>;
  /** JSON. */
  readonly body: string;
}

/** Encoded, or refused before the provider saw it (a payload over its limit). */
export type Prepared =
  { readonly kind: 'ready'; readonly encoded: Encoded } | { readonly kind: 'refused'; readonly reply: Reply };

/** A free stream on a connection, and credentials that are valid: a send with it does not wait. */
export interface Permit {
  /** Gives the stream back. Does nothing once the permit was used. */
  release(): void;
}

/** What came of asking for a permit. Of the reply, nothing was sent. */
export type Reserved =
  { readonly kind: 'permit'; readonly permit: Permit } | { readonly kind: 'none'; readonly reply: Reply };

/** How a push is sent. */
export interface SendOptions {
  /** Used up by the send. Without one the send waits for a stream. */
  readonly permit?: Permit | undefined;
  /** What was not handed to the connection by then (`performance.now()`) is not sent at all. */
  readonly sendBy?: number | undefined;
  /** Told when it has left (`performance.now()`), before any answer. */
  readonly onSent?: ((at: number) => void) | undefined;
}

/** One push service. Nothing of it throws: every failure is a Reply. */
export interface Provider {
  readonly platform: Platform;
  /** Checks the size and encodes. All that takes time is done here, before the limiter is asked. */
  prepare(push: Push): Prepared;
  /** Waits for a free stream and for valid credentials. Waiting is no failure; it ends where no connection can be had. */
  reserve(): Reserved | Promise<Reserved>;
  /** One request; never repeated, but once where the provider calls our credentials expired. */
  send(encoded: Encoded, options?: SendOptions): Promise<Reply>;
  /** Connects and signs in ahead of the first send, and keeps connected until `close`. Sends nothing. */
  connect(): Promise<void>;
  /** Gives up what waits or is under way: it is answered with `cancelled` or `aborted`. */
  abort(): void;
  /** Waits for the sends under way; later ones are answered with the code `closed`. */
  close(): Promise<void>;
}

/** The namespace of push ids: any UUID will do, as long as it never changes. */
const NAMESPACE = Buffer.from('5f1c7a0e9b5d4e0c8d3a6c2f7be41d90', 'hex');

/**
 * The same UUID for every try at one device of a notification, also after a crash: `pushId('msg-8841', 0)`.
 * Version 5 of RFC 9562, section 5.5. A notification's id holds no `#`, so two pairs never share a name.
 *
 * @param deviceIndex the device's place in the notification's `devices`, from 0
 */
export function pushId(notificationId: string, deviceIndex: number): string {
  const sha1 = hash('sha1', Buffer.concat([NAMESPACE, Buffer.from(`${notificationId}#${deviceIndex}`)]), 'hex');
  const variant = ((Number.parseInt(sha1.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return `${sha1.slice(0, 8)}-${sha1.slice(8, 12)}-5${sha1.slice(13, 16)}-${variant}${sha1.slice(17, 20)}-${sha1.slice(20, 32)}`;
}
