import { isObject, type JsonObject, type JsonValue } from '../../domain/json.ts';
import { mergePatch } from '../../domain/merge-patch.ts';
import { liveActivityAps, silencedLiveActivity } from './live-activity.ts';
import type { Alert, ApnsSound, Notification } from '../../domain/notification-types.ts';

/** The largest payload (developer.apple.com/documentation/usernotifications/generating-a-remote-notification). */
export const APNS_MAX_PAYLOAD_BYTES = 4_096;

/**
 * The payload: Apple's keys in `aps`, the data beside it, and `apns.payload` merged into it. A service extension finds the
 * image at `fcm_options.image`, where FCM writes it too (and Firebase's extension helper reads it).
 *
 * @param nowMs epoch milliseconds, for what says when it was sent
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
 * @param alert what is written as its alert; undefined for none
 */
export function apsOf(notification: Notification, alert: Alert | undefined): JsonObject {
  const { apns, badge, imageUrl, pushType, sound } = notification;
  if (pushType === 'background') return { 'content-available': 1 };
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

/** Apple's names: the body's key is `loc-key`. */
export function apsAlert(alert: Alert): JsonObject {
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

/** Apple's dictionary is for critical alerts; a name alone is written as a text. */
function apsSound({ name, critical = false, volume }: ApnsSound): JsonValue {
  if (!critical && volume === undefined) return name;
  return { name, critical: critical ? 1 : 0, ...(volume !== undefined && { volume }) };
}

/** Level `passive`, no sound, no badge, whatever was given. */
export function silenced(payload: JsonObject): JsonObject {
  const aps = isObject(payload['aps']) ? payload['aps'] : {};
  const quiet = Object.fromEntries(Object.entries(aps).filter(([key]) => key !== 'sound' && key !== 'badge'));
  return { ...payload, aps: { ...quiet, 'interruption-level': 'passive' } };
}
