import { z } from 'zod';
import { isObject, type JsonObject, type JsonValue, mergePatch, objectOr } from '../../../domain/json.ts';
import type { AndroidFields } from '../../provider-fields.ts';
import type { Alert, FcmDevice, Notification } from '../../types.ts';
import { apnsDelivery, apnsPayload, appleToken, apsOf, silenced } from '../apns/payload.ts';
import { deviceApp, type DeviceKind, type InvalidPart } from '../device-kind.ts';
import { FCM_RESERVED_DATA_KEYS } from './fields.ts';

/** The longest time that FCM keeps a message: 28 days (firebase.google.com/docs/cloud-messaging/concept-options#ttl). */
const MAX_TTL_MS = 2_419_200_000;

/**
 * The largest payload (firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type). Google does not say how
 * the bytes are counted: about 40 are added, and 6 for each field. So FCM may still refuse a payload just below the limit.
 */
export const FCM_MAX_PAYLOAD_BYTES = 4_096;

/** The Android channel of silent alerts; the app makes it, with low importance. */
const SILENT_CHANNEL = 'silent';

/** What a message needs besides the notification. */
export interface FcmMessageOptions {
  readonly device: Pick<FcmDevice, 'token' | 'fid' | 'liveActivityToken'>;
  readonly pushId: string;
  readonly silent: boolean;
  /** The present time in epoch milliseconds: `ttl` is counted from it. */
  readonly nowMs: number;
  /** Whether an alert on Android is a remote notification (`android_v2`). Default: false. */
  readonly androidV2?: boolean | undefined;
}

/**
 * The message to one registration token or installation id, with the field names of the HTTP API
 * (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages). The kind of device is not known, so every message has a
 * part for Android and a part for iPhones; each device gets only its own part. `fcm.message` is merged at the end.
 *
 * With `android.dataOnly` there is no `notification`, because Android would show it: the alert is in the part for iPhones.
 */
export function fcmMessage(notification: Notification, options: FcmMessageOptions): JsonObject {
  if (notification.pushType === 'liveactivity') return liveActivityMessage(notification, options);
  const { analyticsLabel, data, fcm } = notification;
  const message = targetOf(options.device);
  const shown = isDrawnByAndroid(notification) ? shownOf(notification) : undefined;
  if (shown !== undefined) message['notification'] = shown;
  if (data !== undefined) message['data'] = asTexts(data);
  message['android'] = androidConfig(notification, options);
  message['apns'] = apnsConfig(notification, options);
  if (analyticsLabel !== undefined) message['fcm_options'] = { analytics_label: analyticsLabel };
  const patch = fcm?.message === undefined ? undefined : withSmallHeaders(fcm.message);
  const merged = patch === undefined ? message : mendPatched(message, patch, notification);
  if (!options.silent) return options.androidV2 === true ? asRemoteNotification(merged) : merged;
  const silenced = silencedMessage(merged);
  return isDataOnly(notification) ? markedSilent(silenced) : silenced;
}

/** The target of a message: a token or an installation id. */
function targetOf({ token, fid = '' }: FcmMessageOptions['device']): JsonObject {
  return token === undefined ? { fid } : { token };
}

/**
 * The message to a Live Activity (firebase.google.com/docs/cloud-messaging/customize-messages/live-activity): the token of the
 * activity, and the payload that Apple would get. FCM adds the topic and the push type.
 */
function liveActivityMessage(
  notification: Notification,
  { device, pushId, silent, nowMs }: FcmMessageOptions,
): JsonObject {
  const payload = apnsPayload(notification, silent, nowMs);
  const { priority, collapseId, expiration } = apnsDelivery(notification, pushId, silent);
  const headers: JsonObject = { 'apns-priority': `${priority}`, 'apns-collapse-id': collapseId };
  if (expiration !== undefined) headers['apns-expiration'] = `${expiration}`;
  return { ...targetOf(device), apns: { live_activity_token: device.liveActivityToken ?? '', headers, payload } };
}

/** The fields of `android.notification` that a remote notification does not have. */
const ONLY_IN_V1 = ['bypass_proxy_notification', 'proxy'];

/**
 * The message with `android_v2` in place of `android` (firebase.google.com/docs/cloud-messaging/send/v2-api). Google delivers
 * such a message without delay even to a sleeping device, whatever the priority, and translates it for apps with an older SDK.
 * `android` stays if the app itself draws, or if a patch sets fields that only `android` has: Google refuses both parts in one
 * message.
 *
 * The texts for all devices are repeated, because Google does not say that a remote notification takes them.
 */
function asRemoteNotification(message: JsonObject): JsonObject {
  const { android, ...rest } = message;
  if (!isObject(android)) return message;
  const { notification } = android;
  if (!isObject(notification) || ONLY_IN_V1.some((name) => name in notification)) return message;
  const kept = Object.entries(android).filter(([name]) => name !== 'notification' && name !== 'priority');
  const shown = { ...objectOr(message['notification']), ...notification };
  return { ...rest, android_v2: { ...Object.fromEntries(kept), remote_notification: { notification: shown } } };
}

function isDrawnByAndroid(notification: Notification): boolean {
  return notification.pushType === 'alert' && !isDataOnly(notification);
}

function isDataOnly({ android }: Notification): boolean {
  return android?.dataOnly === true;
}

/**
 * The patch with Apple's header names in lower case, as in the message. Otherwise one header could be there twice, in capital
 * and in small letters, and Apple would refuse it.
 */
function withSmallHeaders(patch: JsonObject): JsonObject {
  const apns = objectOr(patch['apns']);
  if (!isObject(apns['headers'])) return patch;
  const small = Object.entries(apns['headers']).map(([name, value]) => [name.toLowerCase(), value] as const);
  return { ...patch, apns: { ...apns, headers: Object.fromEntries(small) } };
}

/** The patched message. If the patch has removed the texts, nothing empty is shown, and nothing is called an alert. */
function mendPatched(message: JsonObject, patch: JsonObject, notification: Notification): JsonObject {
  const merged = withoutEmpty(mergePatch(message, patch));
  const isAlert = notification.pushType === 'alert';
  return isAlert && isObject(merged['apns']) ? { ...merged, apns: typed(merged['apns'], merged, patch) } : merged;
}

/**
 * If a patch has removed all texts, an iPhone shows nothing. Then the push type and the priority of an alert are left out, and
 * FCM chooses its own; values that the patch itself sets stay.
 */
function typed(apns: JsonObject, { notification }: JsonObject, patch: JsonObject): JsonObject {
  const { headers, payload } = apns;
  const aps = objectOr(objectOr(payload)['aps']);
  if (!isObject(headers) || hasText(notification) || 'alert' in aps) return apns;
  const own = objectOr(objectOr(patch['apns'])['headers']);
  const left = Object.entries(headers).filter(
    ([name]) => name in own || (name !== 'apns-push-type' && name !== 'apns-priority'),
  );
  return { ...apns, headers: Object.fromEntries(left) };
}

/** If a patch has removed the texts: the message without `android.notification`, because Android would show an empty text. */
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

/** What Android and iPhones both show. Undefined if there are only keys of texts. */
function shownOf({ alert = {}, imageUrl }: Notification): JsonObject | undefined {
  const { title, body } = alert;
  if (title === undefined && body === undefined && imageUrl === undefined) return undefined;
  return {
    ...(title !== undefined && { title }),
    ...(body !== undefined && { body }),
    ...(imageUrl !== undefined && { image: imageUrl }),
  };
}

/** The data as FCM takes them: only texts, so any other value is written as JSON. */
function asTexts(data: Readonly<Record<string, JsonValue>>): JsonObject {
  const texts: JsonObject = {};
  for (const [key, value] of Object.entries(data)) {
    texts[key] = typeof value === 'string' ? value : JSON.stringify(value);
  }
  return texts;
}

/**
 * - `priority`: the notification's own. Android may delay `normal` messages while the device sleeps (but see
 *   `asRemoteNotification`). `high` is not the default, because FCM lowers an app's `high` messages if users often ignore them.
 *   A background push is never `high`, since FCM wants every `high` message to show something.
 * - `ttl`: the time left until `expiresAt`. Absent without `expiresAt`: FCM then keeps the message for 28 days.
 * - `collapse_key`: only if the producer gave a collapse id. FCM allows a burst of 20 collapsible messages, then one in 3
 *   minutes, and 4 keys for each device.
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

/**
 * The part of a message for an iPhone (`ApnsConfig`). FCM itself adds `data`, and the title and the body of `notification`. The
 * whole alert is written here only if it has a subtitle or keys of texts, if a patch adds to it, or if there is no
 * `notification` (`android.dataOnly`).
 */
function apnsConfig(
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

/** Whether the alert has fields that FCM does not add. */
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

/** The fields that make a sound, a vibration or a light, or show a number. */
const LOUD = [
  'sound',
  'default_sound',
  'vibrate_timings',
  'default_vibrate_timings',
  'light_settings',
  'default_light_settings',
  'notification_count',
];

/** If this key is in the data, an app that draws notifications itself (`android.dataOnly`) should make no sound. */
const SILENT_KEY = 'pushpacer_silent';

/**
 * The message with normal priority, the silent channel, low notification priority (for Android before 8), no sound and no
 * badge, whatever the producer gave. An app without that channel uses its default channel, with that channel's sound.
 *
 * A patch of the producer (`fcm.message`) may have removed `android` or `apns`. Such a part is added again only if the message
 * shows an alert: without the part, the device would show the alert with sound. Only a patch adds a part for browsers.
 */
function silencedMessage(message: JsonObject): JsonObject {
  const { android, apns, notification, webpush } = message;
  const isShown = isObject(notification);
  return {
    ...message,
    ...(isObject(webpush) && { webpush: silencedWebpush(webpush, isShown) }),
    ...((isShown || isObject(android)) && { android: silencedAndroid(objectOr(android), isShown) }),
    ...((isShown || isObject(apns)) && { apns: silencedApns(objectOr(apns), isShown) }),
  };
}

/** The silenced message for an app that draws notifications itself: a key in the data tells the app to be silent. */
function markedSilent(message: JsonObject): JsonObject {
  const { android, data } = message;
  const marked = { ...message, data: { ...objectOr(data), [SILENT_KEY]: 'true' } };
  // Data in the part for Android replace the data for all devices, so the key is added there too.
  if (!isObject(android) || !isObject(android['data'])) return marked;
  return { ...marked, android: { ...android, data: { ...android['data'], [SILENT_KEY]: 'true' } } };
}

function silencedAndroid(android: JsonObject, isShown: boolean): JsonObject {
  const { notification } = android;
  const quiet = { ...android, priority: 'normal' };
  if (!isShown && !isObject(notification)) return quiet;
  const kept = Object.entries(objectOr(notification)).filter(([name]) => !LOUD.includes(name));
  const shown = Object.fromEntries(kept);
  return { ...quiet, notification: { ...shown, channel_id: SILENT_CHANNEL, notification_priority: 'PRIORITY_LOW' } };
}

/** What makes a notification of a browser loud, or keeps it on the screen. */
const LOUD_IN_BROWSER = ['vibrate', 'renotify', 'requireInteraction'];

/** The silenced part for a browser (`WebpushConfig`), which may show the texts of `notification`. */
function silencedWebpush(webpush: JsonObject, isShown: boolean): JsonObject {
  const { headers, notification } = webpush;
  const kept = Object.entries(objectOr(headers)).filter(([name]) => name.toLowerCase() !== 'urgency');
  const quiet = { ...webpush, headers: { ...Object.fromEntries(kept), Urgency: 'low' } };
  if (!isShown && !isObject(notification)) return quiet;
  const still = Object.entries(objectOr(notification)).filter(([name]) => !LOUD_IN_BROWSER.includes(name));
  return { ...quiet, notification: { ...Object.fromEntries(still), silent: true } };
}

function silencedApns(apns: JsonObject, isShown: boolean): JsonObject {
  const { headers, payload } = apns;
  const aps = objectOr(objectOr(payload)['aps']);
  const isAlert = isShown || 'alert' in aps;
  if (!isAlert && !isObject(headers) && !isObject(payload)) return apns;
  const kept = Object.entries(objectOr(headers)).filter(([name]) => name !== 'apns-priority');
  const isTyped = !isAlert || kept.some(([name]) => name === 'apns-push-type');
  const hasPriority = isAlert || kept.length < Object.keys(objectOr(headers)).length;
  const quiet: JsonObject = {
    ...apns,
    headers: {
      ...(!isTyped && { 'apns-push-type': 'alert' }),
      ...Object.fromEntries(kept),
      ...(hasPriority && { 'apns-priority': '5' }),
    },
  };
  if (isAlert) return { ...quiet, payload: silenced(objectOr(payload)) };
  // Nothing is shown, so no interruption level is needed.
  if (!isObject(payload) || Object.keys(aps).length === 0) return quiet;
  const still = Object.entries(aps).filter(([key]) => !['sound', 'badge', 'interruption-level'].includes(key));
  return { ...quiet, payload: { ...payload, aps: Object.fromEntries(still) } };
}

/**
 * The bytes that count for the payload limit. For Android: names and values of the data, the alert, and how to show it. For an
 * iPhone: its part of the message as JSON. FCM counts only the part for the device. The kind of device is not known here, so
 * the larger part counts. A remote notification already contains the texts for all devices.
 */
export function fcmPayloadBytes({ data, notification, android, android_v2: v2, apns }: JsonObject): number {
  const { data: androidData, notification: shown } = objectOr(v2 === undefined ? android : v2);
  const remote = objectOr(objectOr(v2)['remote_notification'])['notification'];
  const all = [data, androidData, ...(remote === undefined ? [notification, shown] : [remote])];
  const onAndroid = all.reduce<number>((sum, map) => sum + textBytes(map), 0);
  return Math.max(onAndroid, jsonBytes(objectOr(apns)['payload']));
}

/** The bytes of names and texts, at any depth. */
function textBytes(value: JsonValue | undefined): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, each) => sum + textBytes(each), 0);
  let bytes = 0;
  for (const name in value) bytes += Buffer.byteLength(name) + textBytes(value[name]);
  return bytes;
}

function jsonBytes(value: JsonValue | undefined): number {
  return value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value));
}

const token = z
  .string()
  .regex(/^[\x21-\x7e]{1,4096}$/, { error: 'an FCM registration token: 1 to 4096 visible ASCII characters' })
  .optional();

/**
 * 17 random bytes as base64url: the first four bits are 0111, the last four bits are left out. Firebase's SDKs make such an id
 * themselves (firebase.google.com/docs/projects/manage-installations). They check this form in ids that the server gives.
 */
const fid = z
  .string()
  .regex(/^[cdef][A-Za-z0-9_-]{21}$/, {
    error: 'a Firebase installation id: 22 characters of base64url that begin with c, d, e or f',
  })
  .optional();

const liveActivityToken = appleToken('the token of a Live Activity').optional();

/** Runs a check even if other fields of the device have faults, so that all faults are reported at once. */
const when = ({ value }: { readonly value: unknown }): boolean => isObject(value);

export const fcmDevice: DeviceKind<
  'fcm',
  { token: typeof token; fid: typeof fid; liveActivityToken: typeof liveActivityToken }
> = {
  schema: z
    .strictObject({ platform: z.literal('fcm'), token, fid, liveActivityToken, app: deviceApp })
    .refine((device) => device.token !== undefined || device.fid !== undefined, {
      path: ['token'],
      error: 'a text, or a fid in its place',
      when,
    })
    .refine((device) => device.token === undefined || device.fid === undefined, {
      path: ['fid'],
      error: 'none beside token: a device has one of the two',
      when,
    })
    .meta({ oneOf: [{ required: ['token'] }, { required: ['fid'] }] }),
  tokenOf: (device) => device.token ?? device.fid ?? '',
  tagsOf: (notification, pushId) => {
    const { android, collapseId = pushId } = notification;
    return [android?.tag ?? collapseId, apnsDelivery(notification, pushId, false).collapseId];
  },
  // One phone may have several Live Activities.
  identityOf: ({ token, fid, liveActivityToken }) =>
    `${token ?? ''} ${fid ?? ''} ${liveActivityToken?.toLowerCase() ?? ''}`,
  invalidOf,
  takesLiveActivities: true,
  liveActivityField: 'liveActivityToken',
  reservedDataKeys: FCM_RESERVED_DATA_KEYS,
  payload: {
    maxBytes: FCM_MAX_PAYLOAD_BYTES,
    bytesOf: (notification, silent) => fcmPayloadBytes(fcmMessage(notification, { ...MEASURED, silent })),
  },
};

/**
 * FCM does not say which token is gone: the token of the Live Activity, or the registration token beside it. In both cases the
 * activity cannot be reached, so the activity's token is reported. The next alert shows whether the device can be reached.
 */
function invalidOf(
  { token: registrationToken, fid: installationId, liveActivityToken: activity }: Omit<FcmDevice, 'platform'>,
  meaning: 'gone' | 'bad-token',
): InvalidPart {
  if (meaning === 'gone' && activity !== undefined) return { token: activity, kind: 'liveActivityToken' };
  return registrationToken === undefined ? { token: installationId ?? '', kind: 'fid' } : { token: registrationToken };
}

/** For measuring: a push id as long as a real one. The target and the `ttl` do not count. */
const MEASURED = { device: {}, pushId: '0'.repeat(36), nowMs: 0 };
