import { isObject, type JsonObject, type JsonValue } from '../../domain/json.ts';
import type { Alert, Notification } from '../../domain/notification-types.ts';

/**
 * Live Activities on APNs: developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
 */

const TOPIC_SUFFIX = '.push-type.liveactivity';

/** The topic of an app's Live Activities: its bundle id with Apple's suffix, which the producer may have written already. */
export function liveActivityTopic(topic: string): string {
  return topic.endsWith(TOPIC_SUFFIX) ? topic : `${topic}${TOPIC_SUFFIX}`;
}

/**
 * 5 costs nothing of the budget that a device has for updates, so it is the default of what shows nothing loud. Apple delivers
 * 10 at once: it is for alerts, and for `priority: "high"`.
 */
export function liveActivityPriority({ alert, apns, priority }: Notification, silent: boolean): 5 | 10 {
  if (silent || apns?.priority === 5) return 5;
  return apns?.priority === 10 || alert !== undefined || priority === 'high' ? 10 : 5;
}

/** @param nowMs epoch milliseconds: the `timestamp`, which Apple requires, where the producer gave none */
export function liveActivityAps({ alert, liveActivity, sound }: Notification, nowMs: number): JsonObject {
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
export function silencedLiveActivity(payload: JsonObject): JsonObject {
  const aps = isObject(payload['aps']) ? payload['aps'] : {};
  return { ...payload, aps: Object.fromEntries(Object.entries(aps).filter(([key]) => key !== 'alert')) };
}

/** Not as in other alerts: a key lies in the place of its text, and the sound in the alert. */
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
