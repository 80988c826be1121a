import { hash } from 'node:crypto';
import { z } from 'zod';
import { type JsonObject, type JsonValue, mergePatch, objectOr } from '../../../domain/json.ts';
import type { ApnsSound } from '../../provider-fields.ts';
import type { Alert, Channel, Notification } from '../../types.ts';
import { deviceApp, type TokenKind } from '../device-kind.ts';

/** The largest payload (developer.apple.com/documentation/usernotifications/generating-a-remote-notification). */
export const APNS_MAX_PAYLOAD_BYTES = 4_096;
/**
 * The largest payload to a channel
 * (developer.apple.com/documentation/usernotifications/sending-broadcast-push-notification-requests-to-apns).
 */
const CHANNEL_MAX_PAYLOAD_BYTES = 5_120;
/** How long APNs keeps the newest push to a channel. */
const CHANNEL_KEPT_S = 8 * 3_600;

export function apnsMaxBytes({ channel }: Notification): number {
  return channel === undefined ? APNS_MAX_PAYLOAD_BYTES : CHANNEL_MAX_PAYLOAD_BYTES;
}

/**
 * The payload: Apple's keys in `aps`, the data beside `aps`, and `apns.payload` merged into both. The image is at
 * `fcm_options.image`, where FCM writes it too and Firebase's extension helper reads it.
 *
 * @param nowMs epoch milliseconds, for the `timestamp` of a Live Activity
 */
export function apnsPayload(notification: Notification, silent: boolean, nowMs: number): JsonObject {
  const { apns, data, imageUrl } = notification;
  const isLive = notification.pushType === 'liveactivity';
  const aps = isLive ? liveActivityAps(notification, nowMs) : apsOf(notification, notification.alert);
  const payload: JsonObject = { ...data, aps };
  if (imageUrl !== undefined) payload['fcm_options'] = { image: imageUrl };
  const merged = apns?.payload === undefined ? payload : mergePatch(payload, apns.payload);
  if (!silent) return merged;
  return isLive ? silencedLiveActivity(merged) : silenced(merged);
}

/**
 * The `aps` of a notification, before `apns.payload` is merged into it.
 *
 * @param alert the alert that is written; undefined for none
 */
export function apsOf(notification: Notification, alert: Alert | undefined): JsonObject {
  const { apns, badge, imageUrl, pushType, sound } = notification;
  if (pushType === 'background') return { 'content-available': 1, ...(badge !== undefined && { badge }) };
  const aps: JsonObject = {};
  if (alert !== undefined) aps['alert'] = apsAlert(alert);
  if (badge !== undefined) aps['badge'] = badge;
  if (apns?.sound !== undefined) aps['sound'] = apsSound(apns.sound);
  else if (sound !== undefined) aps['sound'] = sound;
  if (apns?.mutableContent ?? imageUrl !== undefined) aps['mutable-content'] = 1;
  if (apns === undefined) return aps;
  if (apns.threadId !== undefined) aps['thread-id'] = apns.threadId;
  if (apns.actionCategory !== undefined) aps['category'] = apns.actionCategory;
  if (apns.targetContentId !== undefined) aps['target-content-id'] = apns.targetContentId;
  if (apns.interruptionLevel !== undefined) aps['interruption-level'] = apns.interruptionLevel;
  if (apns.relevanceScore !== undefined) aps['relevance-score'] = apns.relevanceScore;
  return aps;
}

/** The alert with Apple's names, such as `loc-key` for the body's key. */
function apsAlert(alert: Alert): JsonObject {
  const { titleLocKey, titleLocArgs, subtitleLocKey, subtitleLocArgs, bodyLocKey, bodyLocArgs, ...texts } = alert;
  const written = texts as JsonObject;
  if (titleLocKey !== undefined) written['title-loc-key'] = titleLocKey;
  if (titleLocArgs !== undefined) written['title-loc-args'] = titleLocArgs;
  if (subtitleLocKey !== undefined) written['subtitle-loc-key'] = subtitleLocKey;
  if (subtitleLocArgs !== undefined) written['subtitle-loc-args'] = subtitleLocArgs;
  if (bodyLocKey !== undefined) written['loc-key'] = bodyLocKey;
  if (bodyLocArgs !== undefined) written['loc-args'] = bodyLocArgs;
  return written;
}

/** Apple has a dictionary for critical alerts and volumes. Any other sound is written as its name alone. */
function apsSound({ name, critical = false, volume }: ApnsSound): JsonValue {
  if (!critical && volume === undefined) return name;
  return { name, critical: critical ? 1 : 0, ...(volume !== undefined && { volume }) };
}

/** The payload with the level `passive`, no sound and no badge, whatever the producer gave. */
export function silenced(payload: JsonObject): JsonObject {
  const aps = objectOr(payload['aps']);
  const quiet = Object.fromEntries(Object.entries(aps).filter(([key]) => key !== 'sound' && key !== 'badge'));
  return { ...payload, aps: { ...quiet, 'interruption-level': 'passive' } };
}

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
 * - `apns-push-type`: `background` only if the producer asked for it and there is no badge. Apple takes a badge only in an
 *   `alert`, which shows nothing without texts. A silent alert stays an `alert`, because Apple may drop a `background` push.
 * - `apns-priority`: 10 for every alert that makes a sound or a banner. Apple may group alerts of priority 5 and deliver them
 *   in bursts, although the limiter has spaced them. So 5 is only for silent alerts, for background pushes (10 is an error
 *   there), and if the producer asked for it. 1 does not wake the device, and is used only if the producer asked for it; a
 *   background push always has 5. The notification's own priority only orders the queue.
 *   A Live Activity has 5 or 10 (`liveActivityPriority`).
 * - `apns-expiration`: `expiresAt` in seconds. Absent if the notification has none: APNs then keeps it for up to 30 days.
 *   Never 0, which would mean one try and no storing.
 * - `apns-collapse-id`: the producer's, otherwise the push id, so that a second copy (a retry after a timeout) replaces the
 *   first one on the device.
 */
export function apnsDelivery(notification: Notification, pushId: string, silent: boolean): ApnsDelivery {
  const { badge, collapseId, expiresAt, pushType } = notification;
  return {
    pushType: pushType === 'background' && badge !== undefined ? 'alert' : pushType,
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

/** A header cannot carry every character. An id with other characters is replaced by its hash, which is always the same. */
function headerSafe(collapseId: string): string {
  return /^[\x21-\x7e]+$/.test(collapseId) ? collapseId : hash('sha256', collapseId, 'base64url');
}

// Live Activities: developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications

const TOPIC_SUFFIX = '.push-type.liveactivity';

/** The topic of an app's Live Activities: its bundle id with Apple's suffix, which the producer may have written already. */
export function liveActivityTopic(topic: string): string {
  return topic.endsWith(TOPIC_SUFFIX) ? topic : `${topic}${TOPIC_SUFFIX}`;
}

/** The bundle id of an app, without the suffix for Live Activities, which APNs refuses in the path of a broadcast. */
export function bundleIdOf(topic: string): string {
  return topic.endsWith(TOPIC_SUFFIX) ? topic.slice(0, -TOPIC_SUFFIX.length) : topic;
}

/** A push to a channel: its path, and its headers beside `authorization`. */
export interface ChannelRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string | number>>;
}

/**
 * developer.apple.com/documentation/usernotifications/sending-broadcast-push-notification-requests-to-apns says what each header
 * means. Expiration and priority are required, and there is no topic and no collapse id.
 *
 * For a channel that keeps no push, `apns-expiration` is 0: APNs refuses any other value.
 *
 * @param topic the app's bundle id, or its topic for Live Activities
 * @param nowMs epoch milliseconds
 */
export function channelRequest(
  notification: Notification,
  channel: Channel,
  { pushId, silent, topic, nowMs }: { pushId: string; silent: boolean; topic: string; nowMs: number },
): ChannelRequest {
  const keptUntil = secondsOf(nowMs) + CHANNEL_KEPT_S;
  const expiresAt = secondsOf(notification.expiresAt ?? Infinity);
  return {
    path: `/4/broadcasts/apps/${bundleIdOf(topic)}`,
    headers: {
      'content-type': 'application/json',
      'apns-request-id': pushId,
      'apns-channel-id': channel.id,
      'apns-push-type': 'liveactivity',
      'apns-priority': liveActivityPriority(notification, silent),
      'apns-expiration': channel.storage === 'most-recent' ? Math.max(1, Math.min(expiresAt, keptUntil)) : 0,
    },
  };
}

/**
 * Priority 5 does not use up the device's budget for updates, so it is the default for pushes without an alert. Apple delivers
 * priority 10 at once: it is for alerts, and for `priority: "high"`.
 */
function liveActivityPriority({ alert, apns, priority }: Notification, silent: boolean): 5 | 10 {
  if (silent || apns?.priority === 5) return 5;
  return apns?.priority === 10 || alert !== undefined || priority === 'high' ? 10 : 5;
}

/** @param nowMs epoch milliseconds: the `timestamp`, which Apple requires, if the producer gave none */
function liveActivityAps({ alert, liveActivity, sound }: Notification, nowMs: number): JsonObject {
  if (liveActivity === undefined) return {}; // the check lets no such notification pass
  const { event, contentState, timestamp, staleDate, dismissalDate, relevanceScore } = liveActivity;
  const aps: JsonObject = { timestamp: secondsOf(timestamp ?? nowMs), event, 'content-state': contentState };
  if (staleDate !== undefined) aps['stale-date'] = secondsOf(staleDate);
  if (dismissalDate !== undefined) aps['dismissal-date'] = secondsOf(dismissalDate);
  if (relevanceScore !== undefined) aps['relevance-score'] = relevanceScore;
  if (liveActivity.attributesType !== undefined) aps['attributes-type'] = liveActivity.attributesType;
  if (liveActivity.attributes !== undefined) aps['attributes'] = liveActivity.attributes;
  if (alert !== undefined) aps['alert'] = liveActivityAlert(alert, sound);
  return aps;
}

/** The payload without its alert: the state is shown, and nothing makes a sound or lights up the screen. */
function silencedLiveActivity(payload: JsonObject): JsonObject {
  const aps = objectOr(payload['aps']);
  return { ...payload, aps: Object.fromEntries(Object.entries(aps).filter(([key]) => key !== 'alert')) };
}

/** The alert of a Live Activity. Unlike in other alerts, a key stands in place of its text, and the sound is in the alert. */
function liveActivityAlert(alert: Alert, sound: string | undefined): JsonObject {
  const written: JsonObject = {};
  const title = textOf(alert.title, alert.titleLocKey, alert.titleLocArgs);
  const body = textOf(alert.body, alert.bodyLocKey, alert.bodyLocArgs);
  if (title !== undefined) written['title'] = title;
  if (body !== undefined) written['body'] = body;
  if (sound !== undefined) written['sound'] = sound;
  return written;
}

function textOf(text: string | undefined, key: string | undefined, args?: string[]): JsonValue | undefined {
  return key === undefined ? text : { 'loc-key': key, ...(args !== undefined && { 'loc-args': args }) };
}

function secondsOf(ms: number): number {
  return Math.floor(ms / 1_000);
}

/** The check of a token from Apple. `what` names the token in the fault: `an APNs device token`. */
export function appleToken(what: string): z.ZodString {
  return z.string().regex(/^[0-9a-fA-F]{2,512}$/, { error: `${what}: 2 to 512 hexadecimal digits` });
}

export const apnsDevice: TokenKind<'apns'> = {
  schema: z.strictObject({
    platform: z.literal('apns'),
    token: appleToken('an APNs device token'),
    app: deviceApp,
  }),
  tokenOf: ({ token }) => token,
  identityOf: ({ token }) => token.toLowerCase(),
  tagsOf: (notification, pushId) => [apnsDelivery(notification, pushId, false).collapseId],
  // A service extension finds the image in `fcm_options`.
  reservedDataKeys: ['aps', 'fcm_options'],
  takesLiveActivities: true,
  payload: {
    maxBytes: APNS_MAX_PAYLOAD_BYTES,
    maxBytesOf: apnsMaxBytes,
    bytesOf: (notification, silent) => Buffer.byteLength(JSON.stringify(apnsPayload(notification, silent, Date.now()))),
  },
};
