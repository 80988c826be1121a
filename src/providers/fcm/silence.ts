import { isObject, type JsonObject } from '../../domain/json.ts';
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

/**
 * Normal priority, the silent channel, low notification priority (for Android before 8), no sound, no badge, whatever was
 * given. An app without that channel uses its default channel, with that channel's sound.
 */
export function silencedMessage(message: JsonObject, channelId: string): JsonObject {
  const android = partOf(message, 'android');
  const apns = partOf(message, 'apns');
  const shown = Object.fromEntries(
    Object.entries(partOf(android, 'notification')).filter(([name]) => !LOUD.includes(name)),
  );
  return {
    ...message,
    android: {
      ...android,
      priority: 'normal',
      notification: { ...shown, channel_id: channelId, notification_priority: 'PRIORITY_LOW' },
    },
    apns: {
      ...apns,
      headers: { ...partOf(apns, 'headers'), 'apns-priority': '5' },
      payload: silenced(partOf(apns, 'payload')),
    },
  };
}

function partOf(object: JsonObject, name: string): JsonObject {
  const part = object[name];
  return isObject(part) ? part : {};
}
