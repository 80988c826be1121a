import { createHash } from 'node:crypto';
import { Notification } from 'apn';
import { tokenOf } from '../../domain/device.ts';
import type { Prepared, Push } from '../provider.ts';
import { APNS_REPLIES } from './answers.ts';

/** The largest payload of an alert (developer.apple.com/documentation/usernotifications/generating-a-remote-notification). */
export const APNS_MAX_PAYLOAD_BYTES = 4_096;

/** Two methods of the library's Notification that are missing in its type declarations. */
interface Writable {
  headers(): Readonly<Record<string, string | number>>;
  /** The payload as JSON. */
  compile(): string;
}

/** A push as an APNs request, for the app with this topic (its bundle id). */
export function encodeApns(push: Push, topic: string): Prepared {
  const message = apnsMessage(push, topic) as Notification & Writable;
  const body = message.compile();
  const bytes = Buffer.byteLength(body);
  if (bytes > APNS_MAX_PAYLOAD_BYTES) {
    const detail = `payload: expected at most ${APNS_MAX_PAYLOAD_BYTES} bytes, found ${bytes}`;
    return { kind: 'refused', reply: { ...APNS_REPLIES.PayloadTooLarge, code: 'PayloadTooLarge', detail } };
  }
  return {
    kind: 'ready',
    encoded: { push, path: `/3/device/${tokenOf(push.device)}`, headers: message.headers(), body },
  };
}

/**
 * - `apns-priority`: 10 for every alert that makes a sound or a banner. Apple may group alerts of priority 5 and deliver
 *   them in bursts, against the limiter's spacing, so 5 is for silent ones only. The notification's own priority only
 *   orders the queue.
 * - `apns-expiration`: `expiresAt` in seconds. Absent if the notification has none: APNs then keeps it for up to 30 days.
 *   Never 0, which would mean one try and no storing.
 * - `apns-collapse-id`: the producer's, otherwise the push id, so that a second copy (a retry after a timeout) replaces the
 *   first one on the device.
 * - Silent: level `passive`, no sound, no badge. It stays an `alert` push, because a `background` push may be dropped.
 */
function apnsMessage({ notification, pushId, silent }: Push, topic: string): Notification {
  const { alert, badge, collapseId, data, expiresAt, sound } = notification;
  return new Notification({
    topic,
    id: pushId,
    pushType: 'alert',
    priority: silent ? 5 : 10,
    collapseId: collapseId === undefined ? pushId : headerSafe(collapseId),
    ...(expiresAt === undefined ? {} : { expiry: Math.max(1, Math.floor(expiresAt / 1_000)) }),
    rawPayload: { ...data, aps: { alert, ...(silent ? { 'interruption-level': 'passive' } : { sound, badge }) } },
  });
}

/** A header cannot carry every character of a collapse id. If needed its hash is sent, which is just as stable. */
function headerSafe(collapseId: string): string {
  if (/^[\x21-\x7e]+$/.test(collapseId)) return collapseId;
  return createHash('sha256').update(collapseId).digest('base64url');
}
