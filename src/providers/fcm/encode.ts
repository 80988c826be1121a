import type { BaseMessage } from 'firebase-admin/messaging';
import { tokenOf } from '../../domain/device.ts';
import type { Prepared, Push } from '../provider.ts';

/** The longest time that FCM keeps a message: 28 days (firebase.google.com/docs/cloud-messaging/concept-options#ttl). */
const MAX_TTL_MS = 2_419_200_000;

/**
 * The largest payload (firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type). Google does not say how
 * it counts: about 40 bytes, and 6 for each field, come on top. So a payload just below the limit may still be refused by FCM.
 */
export const FCM_MAX_PAYLOAD_BYTES = 4_096;

export interface FcmEncodeOptions {
  readonly projectId: string;
  /** The Android channel of silent alerts; the app makes it, with low importance. */
  readonly silentChannelId: string;
  /** Epoch milliseconds, from which `ttl` is counted. */
  readonly nowMs: number;
}

/** A message to one registration token. Not firebase-admin's own type, which is deprecated (tokens are not). */
type FcmMessage = BaseMessage & { readonly token: string };

/** A push as a request to FCM. */
export function encodeFcm(push: Push, { projectId, ...options }: FcmEncodeOptions): Prepared {
  const message = fcmMessage(push, options);
  const bytes = payloadBytes(message);
  if (bytes > FCM_MAX_PAYLOAD_BYTES) {
    const detail = `payload: expected at most ${FCM_MAX_PAYLOAD_BYTES} bytes, found ${bytes}`;
    return { kind: 'refused', reply: { meaning: 'rejected', alerted: 'no', code: 'payload-too-large', detail } };
  }
  return {
    kind: 'ready',
    encoded: {
      push,
      path: `/v1/projects/${projectId}/messages:send`,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ message: onTheWire(message) }),
    },
  };
}

/**
 * A notification with data beside it, in the types of firebase-admin.
 *
 * - `android.priority`: the notification's own. Android may hold `normal` messages while the device sleeps. `high` is not
 *   the default, because FCM lowers an app's `high` messages if users often ignore them.
 * - `android.ttl`: the time left until `expiresAt`. Absent without `expiresAt`: FCM then keeps it for 28 days.
 * - `android.collapseKey`: only if the producer gave a collapse id. FCM limits collapsible messages to a burst of 20 and
 *   then one in 3 minutes, and a device to 4 keys.
 * - `android.notification.tag`: the collapse id, otherwise the push id, so that a second copy replaces the first one in the
 *   notification drawer. FCM has no idempotency key; it does not limit tags.
 * - Silent: normal priority, the silent channel, low notification priority (for Android before 8), no sound, no badge. An
 *   app without that channel uses its default channel, with that channel's sound.
 */
function fcmMessage(push: Push, { silentChannelId, nowMs }: Omit<FcmEncodeOptions, 'projectId'>): FcmMessage {
  const { notification, device, pushId, silent } = push;
  const { alert, badge = 0, collapseId, data, expiresAt, priority, sound } = notification;
  return {
    token: tokenOf(device),
    notification: {
      ...(alert.title === undefined ? {} : { title: alert.title }),
      ...(alert.body === undefined ? {} : { body: alert.body }),
    },
    ...(data === undefined ? {} : { data }),
    android: {
      priority: silent ? 'normal' : priority,
      ...(expiresAt === undefined ? {} : { ttl: Math.min(Math.max(0, expiresAt - nowMs), MAX_TTL_MS) }),
      ...(collapseId === undefined ? {} : { collapseKey: collapseId }),
      notification: {
        tag: collapseId ?? pushId,
        ...(silent
          ? { channelId: silentChannelId, priority: 'low' }
          : {
              ...(sound === undefined ? {} : { sound }),
              ...(badge > 0 ? { notificationCount: badge } : {}), // 0 means "count up" to FCM
            }),
      },
    },
  };
}

/** The message with the field names of the HTTP API (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages). */
function onTheWire({ android = {}, ...message }: FcmMessage): object {
  const {
    collapseKey,
    ttl,
    priority,
    notification: { channelId, notificationCount, priority: shown, ...rest } = {},
  } = android;
  return {
    ...message,
    android: {
      priority,
      ...(ttl === undefined ? {} : { ttl: `${ttl / 1_000}s` }),
      ...(collapseKey === undefined ? {} : { collapse_key: collapseKey }),
      notification: {
        ...rest,
        ...(channelId === undefined ? {} : { channel_id: channelId }),
        ...(notificationCount === undefined ? {} : { notification_count: notificationCount }),
        ...(shown === undefined ? {} : { notification_priority: `PRIORITY_${shown.toUpperCase()}` }),
      },
    },
  };
}

/** The bytes that count for the payload limit: names and values of the data, the alert, and how to show it. */
function payloadBytes({ data = {}, notification = {}, android = {} }: FcmMessage): number {
  let bytes = 0;
  for (const map of [data, notification, android.notification ?? {}]) {
    for (const name in map) {
      const value: unknown = map[name as keyof typeof map];
      bytes += Buffer.byteLength(name) + (typeof value === 'string' ? Buffer.byteLength(value) : 0);
    }
  }
  return bytes;
}
