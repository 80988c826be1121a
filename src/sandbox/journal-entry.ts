import { printable } from '../domain/faults.ts';
import type { Platform } from '../domain/notification.ts';

/** One request as a provider saw it. It names no recipient: no provider is told who that is. */
export interface JournalEntry {
  /** The provider that was asked. */
  readonly platform: Platform;
  /** The device: its token, of web push the endpoint. Empty if the request had none. APNs tokens are in lower case. */
  readonly token: string;
  /** When the request's headers arrived: epoch milliseconds with a fraction, on a clock that is never set. */
  readonly at: number;
  /** Whether the device was alerted; the answer may have said otherwise. */
  readonly accepted: boolean;
  /** The HTTP status that was answered; absent where no answer was given. */
  readonly status?: number | undefined;
  /** The provider's word for a refusal, where its answer had one; `hang` or `reset` if there was no answer. */
  readonly reason?: string | undefined;
  /** APNs: the `apns-id` that was sent or made. */
  readonly apnsId?: string | undefined;
  /** FCM: the message's name; answered where the message was accepted. */
  readonly messageName?: string | undefined;
  /** FCM: `android.notification.tag`; web push: `tag` of the message. Alerts with the same one replace each other on the device. */
  readonly tag?: string | undefined;
  /** What the producer gave as `collapseId`; on APNs the `apns-id` where it gave none. Web push: its hash, the `topic`. */
  readonly collapseId?: string | undefined;
  /** As the client wrote it: `10` or `5` on APNs, `high` or `normal` on FCM, `high`, `normal` or `low` for web push. */
  readonly priority?: string | undefined;
  /** Epoch seconds after which the provider drops the alert; 0 for one try only. The ttl of FCM and web push is counted from `at`. */
  readonly expiration?: number | undefined;
  /** APNs: the `apns-push-type`. */
  readonly pushType?: string | undefined;
  /** APNs: the `apns-topic`, which names the app. */
  readonly topic?: string | undefined;
  /** APNs: the key that signed the request's provider token, where that was valid. */
  readonly keyId?: string | undefined;
  /** APNs: the team of that key. */
  readonly teamId?: string | undefined;
  /** FCM: the project that was asked. */
  readonly projectId?: string | undefined;
  /** The alert's title. */
  readonly title?: string | undefined;
  /** The alert's text. */
  readonly body?: string | undefined;
  /** What the app gets beside the alert. */
  readonly data: Readonly<Record<string, string>>;
  /**
   * What an Apple device would ignore, because Apple does not know the key or its value has another type than documented:
   * `aps.relevance-score: expected a number from 0 to 1`. APNs and FCM accept it all the same. Absent if there is nothing.
   */
  readonly ignored?: readonly string[] | undefined;
  /** APNs' whole payload, FCM's whole message, web push's decrypted message; undefined where it could not be read. */
  readonly payload?: unknown;
}

const MAX_TEXT = 60;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * `fcm  dGVz… refused 404 UNREGISTERED "Room 12" push id 5f1c7a0e`: enough to follow, without the whole token and the alert's text.
 * No provider is told the notification's id. The push id comes from it, so that retries of one notification at one device have the
 * same: the beginning of APNs' `apns-id` or FCM's `tag`.
 */
export function entryText(entry: JournalEntry): string {
  const { platform, token, title, apnsId, tag, collapseId } = entry;
  const pushId = [apnsId, tag].find((id) => id !== undefined && UUID.test(id));
  const parts = [
    platform.padEnd(4),
    tokenStart(token),
    outcomeText(entry),
    ...(title === undefined ? [] : [quoted(title)]),
    ...(pushId === undefined ? [] : [`push id ${pushId.slice(0, 8).toLowerCase()}`]),
    ...(collapseId === undefined || collapseId === pushId ? [] : [`collapse id ${quoted(collapseId)}`]),
  ];
  return parts.join(' ');
}

/** The beginning of a token, never all of it: `dGVz…`. All endpoints begin alike, so of one that of its last part. */
export function tokenStart(token: string): string {
  if (token === '') return '(no token)';
  const own = token.startsWith('https://') ? token.slice(token.lastIndexOf('/') + 1) : token;
  return `${printable(own.slice(0, Math.min(4, own.length / 2)))}…`;
}

/** `accepted`, `refused 503 ServiceUnavailable`, `no answer (reset)`, `accepted, but answered 503 UNAVAILABLE`. */
function outcomeText({ accepted, status, reason }: JournalEntry): string {
  if (accepted && status !== undefined && status < 300) return 'accepted';
  const words = [status, reason].filter((word) => word !== undefined).join(' ');
  if (status === undefined) return `${accepted ? 'accepted, but ' : ''}no answer (${reason ?? ''})`;
  return accepted ? `accepted, but answered ${words}` : `refused ${words}`;
}

function quoted(text: string): string {
  const short = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text;
  return `"${printable(short)}"`;
}
