import { hash } from 'node:crypto';
import { liveActivityPriority } from './live-activity.ts';
import type { Notification } from '../../domain/notification-types.ts';

/** How APNs is to deliver a notification, the same on APNs and through FCM. */
export interface ApnsDelivery {
  readonly pushType: Notification['pushType'];
  readonly priority: 1 | 5 | 10;
  readonly collapseId: string;
  /** Epoch seconds. */
  readonly expiration?: number;
}

/**
 * developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns says what each header means.
 *
 * - `apns-push-type`: `background` only where the producer asked for it. A silent alert stays an `alert`, because a
 *   `background` push may be dropped.
 * - `apns-priority`: 10 for every alert that makes a sound or a banner. Apple may group alerts of priority 5 and deliver
 *   them in bursts, against the limiter's spacing, so 5 is for silent ones, for background pushes (10 is an error there) and
 *   where the producer asked for it. So is 1, which does not wake the device; a background push always has 5. The
 *   notification's own priority only orders the queue.
 *   A Live Activity has 5 or 10 (live-activity.ts).
 * - `apns-expiration`: `expiresAt` in seconds. Absent if the notification has none: APNs then keeps it for up to 30 days.
 *   Never 0, which would mean one try and no storing.
 * - `apns-collapse-id`: the producer's, otherwise the push id, so that a second copy (a retry after a timeout) replaces the
 *   first one on the device.
 */
export function apnsDelivery(notification: Notification, pushId: string, silent: boolean): ApnsDelivery {
  const { collapseId, expiresAt, pushType } = notification;
  return {
    pushType,
    priority: priorityOf(notification, silent),
    collapseId: collapseId === undefined ? pushId : headerSafe(collapseId),
    ...(expiresAt === undefined ? {} : { expiration: Math.max(1, Math.floor(expiresAt / 1_000)) }),
  };
}

function priorityOf(notification: Notification, silent: boolean): 1 | 5 | 10 {
  const { apns, pushType } = notification;
  if (pushType === 'background') return 5;
  if (pushType === 'liveactivity') return liveActivityPriority(notification, silent);
  const asked = apns?.priority ?? 10;
  return silent && asked > 5 ? 5 : asked;
}

/** A header cannot carry every character of a collapse id. If needed its hash is sent, which is just as stable. */
function headerSafe(collapseId: string): string {
  return /^[\x21-\x7e]+$/.test(collapseId) ? collapseId : hash('sha256', collapseId, 'base64url');
}
