import { isObject, type JsonObject, type JsonValue } from '../../domain/json.ts';
import { silenced } from '../apns/payload.ts';

/** What makes a sound, a vibration or a light, or counts. */
const LOUD = [
  'sound',
  'default_sound',
  'vibrate_timings',
  'default_vibrate_timings',
  'light_settings',
  'default_light_settings',
  'notification_count',
];

/** The key of the data that tells an app that draws for itself (`android.dataOnly`) to make no sound. */
const SILENT_KEY = 'pushpacer_silent';

/**
 * Normal priority, the silent channel, low notification priority (for Android before 8), no sound, no badge, whatever was
 * given. An app without that channel uses its default channel, with that channel's sound.
 *
 * A part that a patch has removed is added again only where something is shown: without its part a device would show it loud.
 */
export function silencedMessage(message: JsonObject, channelId: string): JsonObject {
  const { android, apns, notification } = message;
  const isShown = isObject(notification);
  return {
    ...message,
    ...((isShown || isObject(android)) && { android: silencedAndroid(objectOr(android), isShown, channelId) }),
    ...((isShown || isObject(apns)) && { apns: silencedApns(objectOr(apns), isShown) }),
  };
}

/** The message of an app that draws for itself: what it shows, it shows by the data. */
export function markedSilent(message: JsonObject): JsonObject {
  const { android, data } = message;
  const marked = { ...message, data: { ...objectOr(data), [SILENT_KEY]: 'true' } };
  // Android gets its own data in place of those for all.
  if (!isObject(android) || !isObject(android['data'])) return marked;
  return { ...marked, android: { ...android, data: { ...android['data'], [SILENT_KEY]: 'true' } } };
}

function silencedAndroid(android: JsonObject, isShown: boolean, channelId: string): JsonObject {
  const { notification } = android;
  const quiet = { ...android, priority: 'normal' };
  if (!isShown && !isObject(notification)) return quiet;
  const kept = Object.entries(objectOr(notification)).filter(([name]) => !LOUD.includes(name));
  const shown = Object.fromEntries(kept);
  return { ...quiet, notification: { ...shown, channel_id: channelId, notification_priority: 'PRIORITY_LOW' } };
}

/** Header names are the same in capitals, and Apple refuses a header that comes twice. */
function silencedApns(apns: JsonObject, isShown: boolean): JsonObject {
  const { headers, payload } = apns;
  const aps = objectOr(objectOr(payload)['aps']);
  const isAlert = isShown || 'alert' in aps;
  if (!isAlert && !isObject(headers) && !isObject(payload)) return apns;
  const kept = Object.entries(objectOr(headers)).filter(([name]) => name.toLowerCase() !== 'apns-priority');
  const isTyped = !isAlert || kept.some(([name]) => name.toLowerCase() === 'apns-push-type');
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
  // Nothing is shown, so there is nothing to be passive.
  if (!isObject(payload) || Object.keys(aps).length === 0) return quiet;
  const still = Object.entries(aps).filter(([key]) => !['sound', 'badge', 'interruption-level'].includes(key));
  return { ...quiet, payload: { ...payload, aps: Object.fromEntries(still) } };
}

function objectOr(part: JsonValue | undefined): JsonObject {
  return isObject(part) ? part : {};
}
