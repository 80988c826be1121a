import { isObject, type JsonObject } from '../../domain/json.ts';
import { mergePatch } from '../../domain/merge-patch.ts';
import type { Alert, Notification } from '../../domain/notification-types.ts';
import { apnsDelivery } from '../apns/headers.ts';
import { apsOf } from '../apns/payload.ts';

/**
 * The part of a message for an iPhone (`ApnsConfig`): what FCM cannot know. FCM itself adds the title and the body of
 * `notification`, and `data`; the alert is written here only if it has a subtitle or keys of texts, if a patch adds to it, or if
 * there is no `notification` (`android.dataOnly`), and then it is the whole one.
 */
export function apnsConfig(
  notification: Notification,
  { pushId, silent }: { readonly pushId: string; readonly silent: boolean },
): JsonObject {
  const { alert, android, apns, imageUrl } = notification;
  const { pushType, priority, collapseId, expiration } = apnsDelivery(notification, pushId, silent);
  const headers: JsonObject = {
    'apns-push-type': pushType,
    'apns-priority': `${priority}`,
    'apns-collapse-id': collapseId,
  };
  if (expiration !== undefined) headers['apns-expiration'] = `${expiration}`;
  const isNeeded = android?.dataOnly === true || isWhole(alert) || isPatched(notification);
  const aps = apsOf(notification, isNeeded ? alert : undefined);
  const payload: JsonObject = Object.keys(aps).length > 0 ? { aps } : {};
  const merged = apns?.payload === undefined ? payload : mergePatch(payload, apns.payload);
  const config: JsonObject = { headers };
  if (Object.keys(merged).length > 0) config['payload'] = merged;
  if (imageUrl !== undefined) config['fcm_options'] = { image: imageUrl };
  return config;
}

/** Whether the alert has what FCM does not add. */
function isWhole({ subtitle, titleLocKey, subtitleLocKey, bodyLocKey }: Alert = {}): boolean {
  return [subtitle, titleLocKey, subtitleLocKey, bodyLocKey].some((text) => text !== undefined);
}

/** Whether `apns.payload` or `fcm.message` adds to the alert of an iPhone. */
function isPatched({ apns, fcm }: Notification): boolean {
  const inMessage = ['apns', 'payload'].reduce<unknown>(below, fcm?.message);
  return [apns?.payload, inMessage].some((patch) => isObject(['aps', 'alert'].reduce<unknown>(below, patch)));
}

function below(value: unknown, name: string): unknown {
  return isObject(value) ? value[name] : undefined;
}
