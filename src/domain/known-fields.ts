import { apnsFieldsSchema, apnsSoundSchema } from '../providers/apns/fields.ts';
import { DEVICE_KINDS } from '../providers/devices.ts';
import { androidFieldsSchema, fcmFieldsSchema } from '../providers/fcm/fields.ts';
import { alertSchema } from './alert-schema.ts';
import { nearest } from './nearest.ts';
import { notificationSchema } from './notification-schema.ts';

/** The fields at each place of a notification; places in `devices` have no index. */
const FIELDS: ReadonlyMap<string, readonly string[]> = new Map([
  ['', Object.keys(notificationSchema.shape)],
  ['devices', [...new Set(DEVICE_KINDS.flatMap(({ schema }) => Object.keys(schema.shape)))]],
  ['alert', Object.keys(alertSchema.shape)],
  ['apns', Object.keys(apnsFieldsSchema.shape)],
  ['apns.sound', Object.keys(apnsSoundSchema.shape)],
  ['android', Object.keys(androidFieldsSchema.shape)],
  ['fcm', Object.keys(fcmFieldsSchema.shape)],
]);

/**
 * The field that was probably meant by an unknown one: a near name at the same place (`treadId` in `apns` → `threadId`),
 * otherwise the same name at another place (`channelId` → `android.channelId`).
 */
export function meantField(place: readonly PropertyKey[], name: string): string | undefined {
  const here = place.filter((part) => typeof part !== 'number').join('.');
  return nearest(name, FIELDS.get(here) ?? []) ?? elsewhere(name);
}

function elsewhere(name: string): string | undefined {
  for (const [place, fields] of FIELDS) {
    const same = fields.find((field) => field.toLowerCase() === name.toLowerCase());
    if (same !== undefined) return place === '' ? same : `${place}.${same}`;
  }
  return undefined;
}
