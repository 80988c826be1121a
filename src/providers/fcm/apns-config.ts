import type { JsonObject } from '../../domain/json.ts';
import { mergePatch } from '../../domain/merge-patch.ts';
import type { Notification } from '../../domain/notification-types.ts';
import { apnsDelivery } from '../apns/headers.ts';
import { apsOf } from '../apns/payload.ts';

/**
 * The part of a message for an iPhone (`ApnsConfig`). FCM itself adds the title and the body of `notification`, and `data`;
 * so the alert is only written here if it has what FCM's `notification` has not: a subtitle, or keys of texts.
 */
export function apnsConfig(
  notification: Notification,
  { pushId, silent }: { readonly pushId: string; readonly silent: boolean },
): JsonObject {
  const { apns, imageUrl } = notification;
  const { pushType, priority, collapseId, expiration } = apnsDelivery(notification, pushId, silent);
  const headers: JsonObject = {
    'apns-push-type': pushType,
    'apns-priority': `${priority}`,
    'apns-collapse-id': collapseId,
  };
  if (expiration !== undefined) headers['apns-expiration'] = `${expiration}`;
  const payload: JsonObject = { aps: withoutAlert(apsOf(notification), notification) };
  return {
    headers,
    payload: apns?.payload === undefined ? payload : mergePatch(payload, apns.payload),
    ...(imageUrl !== undefined && { fcm_options: { image: imageUrl } }),
  };
}

function withoutAlert(aps: JsonObject, { alert = {} }: Notification): JsonObject {
  const { subtitle, titleLocKey, bodyLocKey } = alert;
  if (subtitle !== undefined || titleLocKey !== undefined || bodyLocKey !== undefined) return aps;
  return Object.fromEntries(Object.entries(aps).filter(([key]) => key !== 'alert'));
}
