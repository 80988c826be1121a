import { Notification } from 'apn';
import { tokenOf } from '../../domain/device.ts';
import type { Prepared, Push } from '../provider.ts';
import { APNS_REPLIES } from './answers.ts';
import { apnsDelivery } from './headers.ts';
import { liveActivityTopic } from './live-activity.ts';
import { APNS_MAX_PAYLOAD_BYTES, apnsPayload } from './payload.ts';

/** Two methods of the library's Notification that are missing in its type declarations. */
interface Writable {
  headers(): Readonly<Record<string, string | number>>;
  /** The payload as JSON. */
  compile(): string;
}

/** A push as an APNs request at `nowMs` (epoch milliseconds), for the app with this topic (its bundle id). */
export function encodeApns(push: Push, topic: string, nowMs: number): Prepared {
  const message = apnsMessage(push, topic, nowMs) as Notification & Writable;
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

function apnsMessage({ notification, pushId, silent }: Push, topic: string, nowMs: number): Notification {
  const bundleId = notification.apns?.topic ?? topic;
  const { expiration, ...delivery } = apnsDelivery(notification, pushId, silent);
  return new Notification({
    ...delivery,
    topic: notification.pushType === 'liveactivity' ? liveActivityTopic(bundleId) : bundleId,
    id: pushId,
    ...(expiration === undefined ? {} : { expiry: expiration }),
    rawPayload: apnsPayload(notification, silent, nowMs),
  });
}
