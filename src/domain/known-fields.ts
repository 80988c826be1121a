import { apnsFieldsSchema, apnsSoundSchema } from '../providers/apns/fields.ts';
import { DEVICE_KINDS } from '../providers/devices.ts';
import { androidFieldsSchema, fcmFieldsSchema } from '../providers/fcm/fields.ts';
import { webpushActionSchema, webpushFieldsSchema } from '../providers/webpush/fields.ts';
import { alertSchema } from './alert-schema.ts';
import { digestSchema } from './digest.ts';
import { nearest } from './nearest.ts';
import { liveActivitySchema, notificationSchema } from './notification-schema.ts';

/** The fields at each place of a notification; places in `devices` have no index. */
const FIELDS: ReadonlyMap<string, readonly string[]> = new Map([
  ['', Object.keys(notificationSchema.shape)],
  ['devices', [...new Set(DEVICE_KINDS.flatMap(({ schema }) => Object.keys(schema.shape)))]],
  ['alert', Object.keys(alertSchema.shape)],
  ['liveActivity', Object.keys(liveActivitySchema.shape)],
  ['digest', Object.keys(digestSchema.shape)],
  ['apns', Object.keys(apnsFieldsSchema.shape)],
  ['apns.sound', Object.keys(apnsSoundSchema.shape)],
  ['android', Object.keys(androidFieldsSchema.shape)],
  ['fcm', Object.keys(fcmFieldsSchema.shape)],
  ['webpush', Object.keys(webpushFieldsSchema.shape)],
  ['webpush.actions', Object.keys(webpushActionSchema.shape)],
]);

/**
 * The field that was probably meant by an unknown one: a near name at the same place (`treadId` in `apns` → `threadId`),
 * otherwise the same name at another place (`channelId` → `android.channelId`).
 */
export function meantField(place: readonly PropertyKey[], name: string): string | undefined {
  const here = place.filter((part) => typeof part !== 'number').join('.');
  // A device of another platform may have the field, so that it is among those of this place.
  const others = (FIELDS.get(here) ?? []).filter((field) => field !== name);
  return nearest(name, others) ?? elsewhere(name, here);
}

function elsewhere(name: string, here: string): string | undefined {
  for (const [place, fields] of FIELDS) {
    if (place === here) continue;
    const same = fields.find((field) => field.toLowerCase() === name.toLowerCase());
    if (same !== undefined) return place === '' ? same : `${place}.${same}`;
  }
  return undefined;
}
