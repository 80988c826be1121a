import type { JsonObject } from '../../domain/json.ts';
import { mergePatch } from '../../domain/merge-patch.ts';
import type { Notification } from '../../domain/notification-types.ts';
import { apnsDelivery } from '../apns/headers.ts';
import { apsOf } from '../apns/payload.ts';

/**
 * The part of a message for an iPhone (`ApnsConfig`): what FCM cannot know. FCM itself adds the title and the body of
 * `notification`, and `data`; the alert is written here only if it has a subtitle or keys of texts, and then it is the whole one.
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
  const aps = withoutAlert(apsOf(notification), notification);
  const payload: JsonObject = Object.keys(aps).length > 0 ? { aps } : {};
  const merged = apns?.payload === undefined ? payload : mergePatch(payload, apns.payload);
  return {
    headers,
    ...(Object.keys(merged).length > 0 && { payload: merged }),
    ...(imageUrl !== undefined && { fcm_options: { image: imageUrl } }),
  };
}

function withoutAlert(aps: JsonObject, { alert = {} }: Notification): JsonObject {
  const { subtitle, titleLocKey, bodyLocKey } = alert;
  if (subtitle !== undefined || titleLocKey !== undefined || bodyLocKey !== undefined) return aps;
  return Object.fromEntries(Object.entries(aps).filter(([key]) => key !== 'alert'));
}
