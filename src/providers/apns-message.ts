import { createHash } from 'node:crypto';
import { Notification } from 'apn';
import type { Push } from './provider.ts';

/** The largest payload of an alert (developer.apple.com/documentation/usernotifications/generating-a-remote-notification). */
export const APNS_MAX_PAYLOAD_BYTES = 4_096;

/**
 * A push as APNs takes it.
 *
 * - `apns-priority`: 10 for every alert that is to be noticed. Apple may group those of priority 5 and hand them over in
 *   bursts, which would undo what the limiter spaced; 5 is for silent ones only. The notification's own priority orders
 *   the queue.
 * - `apns-expiration`: `expiresAt` in seconds. Absent where the notification has none, and then APNs keeps it for up to
 *   30 days. Never 0, which would mean one try and no storing.
 * - `apns-collapse-id`: the producer's, otherwise the push id, so that a second copy (a retry after a timeout) takes the
 *   place of the first on the device instead of standing beside it.
 * - Silent: level `passive`, no sound, no badge. It stays an `alert` push, because a `background` push may be dropped.
 */
export function apnsMessage({ notification, pushId, silent }: Push, topic: string): Notification {
  const { alert, badge, collapseId, data, expiresAt, sound } = notification;
  const message = new Notification({
    topic,
    id: pushId,
    pushType: 'alert',
    priority: silent ? 5 : 10,
    collapseId: collapseId === undefined ? pushId : headerSafe(collapseId),
    ...(expiresAt === undefined ? {} : { expiry: Math.max(1, Math.floor(expiresAt / 1_000)) }),
    rawPayload: { ...data, aps: { alert, ...(silent ? { 'interruption-level': 'passive' } : { sound, badge }) } },
  });
  return message;
}

/** A header cannot carry every character that a collapse id may have; its hash can, and is just as stable. */
function headerSafe(collapseId: string): string {
  if (/^[\x21-\x7e]+$/.test(collapseId)) return collapseId;
  return createHash('sha256').update(collapseId).digest('base64url');
}

/**
 * A request that APNs refuses for its token, which is none: it opens a new connection's single stream to the full number,
 * and alerts nobody whatever the answer.
 */
export const WARM_UP_TOKEN = 'warm-up';

export function warmUpMessage(topic: string): Notification {
  const message = new Notification({ topic, pushType: 'background', priority: 5, expiry: 0 });
  message.rawPayload = { aps: { 'content-available': 1 } };
  return message;
}
