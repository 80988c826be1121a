import { isObject, type JsonObject, type JsonValue } from '../../domain/json.ts';
import { mergePatch } from '../../domain/merge-patch.ts';
import type { AndroidFields, Notification } from '../../domain/notification-types.ts';
import { apnsConfig } from './apns-config.ts';
import { markedSilent, silencedMessage } from './silence.ts';

/** The longest time that FCM keeps a message: 28 days (firebase.google.com/docs/cloud-messaging/concept-options#ttl). */
const MAX_TTL_MS = 2_419_200_000;

/**
 * The largest payload (firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type). Google does not say how
 * it counts: about 40 bytes, and 6 for each field, come on top. So a payload just below the limit may still be refused by FCM.
 */
export const FCM_MAX_PAYLOAD_BYTES = 4_096;

/** The Android channel of silent alerts, unless the provider is told another one. */
export const SILENT_CHANNEL = 'silent';

/** What a message needs beside the notification. */
export interface FcmMessageOptions {
  readonly token: string;
  readonly pushId: string;
  readonly silent: boolean;
  /** The Android channel of silent alerts; the app makes it, with low importance. */
  readonly silentChannelId: string;
  /** Epoch milliseconds, from which `ttl` is counted. */
  readonly nowMs: number;
}

/**
 * The message to one registration token, with the field names of the HTTP API
 * (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages). FCM does not tell whose device a token is, so every
 * message has a part for Android and one for iPhones; each device gets only its own. `fcm.message` is merged at the end.
 *
 * With `android.dataOnly` nothing stands in `notification`, which Android would show: the alert is in the part for iPhones.
 */
export function fcmMessage(notification: Notification, options: FcmMessageOptions): JsonObject {
  const { analyticsLabel, data, fcm } = notification;
  const message: JsonObject = { token: options.token };
  const shown = isDrawnByAndroid(notification) ? shownOf(notification) : undefined;
  if (shown !== undefined) message['notification'] = shown;
  if (data !== undefined) message['data'] = asTexts(data);
  message['android'] = androidConfig(notification, options);
  message['apns'] = apnsConfig(notification, options);
  if (analyticsLabel !== undefined) message['fcm_options'] = { analytics_label: analyticsLabel };
  const merged = fcm?.message === undefined ? message : mendPatched(message, fcm.message, notification);
  if (!options.silent) return merged;
  const silenced = silencedMessage(merged, options.silentChannelId);
  return isDataOnly(notification) ? markedSilent(silenced) : silenced;
}

/** Whether Android itself shows something. */
function isDrawnByAndroid(notification: Notification): boolean {
  return notification.pushType === 'alert' && !isDataOnly(notification);
}

function isDataOnly({ android }: Notification): boolean {
  return android?.dataOnly === true;
}

/** What a patch leaves must not be shown empty, and must not be called an alert. */
function mendPatched(message: JsonObject, patch: JsonObject, notification: Notification): JsonObject {
  const merged = withoutEmpty(mergePatch(message, patch));
  const isAlert = notification.pushType === 'alert';
  return isAlert && isObject(merged['apns']) ? { ...merged, apns: typed(merged['apns'], merged, patch) } : merged;
}

/**
 * Where a patch has removed all texts, an iPhone shows nothing. Then the push type and the priority that an alert has are left out, and
 * FCM finds its own; what the patch says itself stays.
 */
function typed(apns: JsonObject, { notification }: JsonObject, patch: JsonObject): JsonObject {
  const { headers, payload } = apns;
  const aps = isObject(payload) && isObject(payload['aps']) ? payload['aps'] : {};
  if (!isObject(headers) || hasText(notification) || 'alert' in aps) return apns;
  const own = isObject(patch['apns']) && isObject(patch['apns']['headers']) ? patch['apns']['headers'] : {};
  const left = Object.entries(headers).filter(
    ([name]) => name in own || (name !== 'apns-push-type' && name !== 'apns-priority'),
  );
  return { ...apns, headers: Object.fromEntries(left) };
}

/** Without the part that says how Android shows a text, where a patch has removed the text: Android would show an empty one. */
function withoutEmpty(message: JsonObject): JsonObject {
  const { android, notification } = message;
  if (!isObject(android) || hasText(android['notification']) || hasText(notification)) return message;
  return {
    ...message,
    android: Object.fromEntries(Object.entries(android).filter(([name]) => name !== 'notification')),
  };
}

function hasText(shown: JsonValue | undefined): boolean {
  return (
    isObject(shown) && ['title', 'body', 'title_loc_key', 'body_loc_key'].some((name) => (shown[name] ?? '') !== '')
  );
}

/** What both kinds of devices show; undefined if there are only keys of texts. */
function shownOf({ alert = {}, imageUrl }: Notification): JsonObject | undefined {
  const { title, body } = alert;
  if (title === undefined && body === undefined && imageUrl === undefined) return undefined;
  return {
    ...(title !== undefined && { title }),
    ...(body !== undefined && { body }),
    ...(imageUrl !== undefined && { image: imageUrl }),
  };
}

/** FCM's data are texts: another value becomes its JSON. */
function asTexts(data: Readonly<Record<string, JsonValue>>): JsonObject {
  const texts: JsonObject = {};
  for (const [key, value] of Object.entries(data)) {
    texts[key] = typeof value === 'string' ? value : JSON.stringify(value);
  }
  return texts;
}

/**
 * - `priority`: the notification's own. Android may hold `normal` messages while the device sleeps. `high` is not the
 *   default, because FCM lowers an app's `high` messages if users often ignore them; a background push is never `high`, since
 *   FCM wants `high` to end in something shown.
 * - `ttl`: the time left until `expiresAt`. Absent without `expiresAt`: FCM then keeps it for 28 days.
 * - `collapse_key`: only if the producer gave a collapse id. FCM limits collapsible messages to a burst of 20 and then one in
 *   3 minutes, and a device to 4 keys.
 */
function androidConfig(notification: Notification, { pushId, nowMs }: FcmMessageOptions): JsonObject {
  const { collapseId, expiresAt, priority, pushType } = notification;
  const config: JsonObject = { priority: pushType === 'background' ? 'normal' : priority };
  if (expiresAt !== undefined) config['ttl'] = `${Math.min(Math.max(0, expiresAt - nowMs), MAX_TTL_MS) / 1_000}s`;
  if (collapseId !== undefined) config['collapse_key'] = collapseId;
  if (isDrawnByAndroid(notification)) config['notification'] = androidNotification(notification, pushId);
  return config;
}

/**
 * `tag`: the producer's, otherwise the collapse id or the push id, so that a second copy replaces the first one in the
 * notification drawer. FCM has no idempotency key; it does not limit tags.
 */
function androidNotification(
  { alert, android = {}, badge = 0, collapseId, sound }: Notification,
  pushId: string,
): JsonObject {
  const { tag = collapseId ?? pushId, notificationCount } = android;
  const shown: JsonObject = { tag };
  if (sound !== undefined) shown['sound'] = sound;
  if (notificationCount !== undefined) shown['notification_count'] = notificationCount;
  else if (badge > 0) shown['notification_count'] = badge; // 0 means "count up" to FCM
  if (alert?.titleLocKey !== undefined) shown['title_loc_key'] = alert.titleLocKey;
  if (alert?.titleLocArgs !== undefined) shown['title_loc_args'] = alert.titleLocArgs;
  if (alert?.bodyLocKey !== undefined) shown['body_loc_key'] = alert.bodyLocKey;
  if (alert?.bodyLocArgs !== undefined) shown['body_loc_args'] = alert.bodyLocArgs;
  addLooks(shown, android);
  return shown;
}

function addLooks(shown: JsonObject, { channelId, icon, color, clickAction, visibility }: AndroidFields): void {
  if (channelId !== undefined) shown['channel_id'] = channelId;
  if (icon !== undefined) shown['icon'] = icon;
  if (color !== undefined) shown['color'] = color;
  if (clickAction !== undefined) shown['click_action'] = clickAction;
  if (visibility !== undefined) shown['visibility'] = visibility.toUpperCase();
}
