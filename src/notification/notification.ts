import { z } from 'zod';
import { apnsFieldsSchema, apnsSoundSchema, channelSchema } from './devices/apns/fields.ts';
import { DEVICE_KINDS } from './devices/devices.ts';
import { androidFieldsSchema, fcmFieldsSchema } from './devices/fcm/fields.ts';
import { webpushActionSchema, webpushFieldsSchema } from './devices/webpush/fields.ts';
import {
  countZodFaults,
  faultOf,
  firstFaults,
  formatPath,
  meantOption,
  MOST_FAULTS,
  nearest,
  zodFaults,
  type Fault,
  type MeantNames,
} from '../domain/faults.ts';
import { isObject, isOversized, MAX_CHARACTERS, MAX_VALUES, valueAt } from '../domain/json.ts';
import { LARGE_FIELDS } from './redact.ts';
import { togetherFaults } from './rules.ts';
import {
  notificationSchema,
  alertSchema,
  digestSchema,
  liveActivitySchema,
  storedId,
  storedRecipientId,
} from './schema.ts';
import type { Notification } from './types.ts';

export { notificationSchema, PLATFORMS, storedRecipientId } from './schema.ts';
export type { JsonObject, JsonValue } from '../domain/json.ts';
export type * from './provider-fields.ts';
export type * from './types.ts';

/** The answer of `parseNotification`: the checked notification, or everything that is wrong with it. */
export type ParsedNotification =
  | {
      /** The value is a valid notification. */
      readonly ok: true;
      /** The same notification with its defaults. */
      readonly notification: Notification;
    }
  | {
      /** The value is not a valid notification. */
      readonly ok: false;
      /** At least one fault. After 20 faults, a last fault says how many more there are. */
      readonly faults: readonly Fault[];
    };

/** Checks any value against the schema. Reports every fault at once; no fault shows a token or a text of the alert. */
export function parseNotification(raw: unknown): ParsedNotification {
  const oversize = oversizeFaults(raw);
  if (oversize.length > 0) return { ok: false, faults: oversize };
  const result = notificationSchema.safeParse(raw);
  const more = [...(hasProto(raw) ? [PROTO_FAULT] : []), ...togetherFaults(raw)];
  if (result.success && more.length === 0) return { ok: true, notification: result.data };
  const found = result.success ? [] : zodFaults(result.error, raw, isPrivate, meantField, MOST_FAULTS);
  const count = (result.success ? 0 : countZodFaults(result.error)) + more.length;
  return { ok: false, faults: firstFaults([...found, ...more], count) };
}

/** The field that is too large, or the notification as a whole. */
function oversizeFaults(raw: unknown): Fault[] {
  if (!isOversized(raw)) return [];
  const large = LARGE_FIELDS.filter((field) => isOversized(valueAt(raw, field)));
  const expected = `at most ${MAX_VALUES} values and ${MAX_CHARACTERS} characters in all`;
  return (large.length === 0 ? [''] : large).map((path) => ({ path, expected, found: 'more' }));
}

const PROTO_FAULT: Fault = {
  path: formatPath(['data', '__proto__']),
  expected: 'a key other than __proto__, which clients lose',
  found: 'one',
};

/** Whether `data` has a key `__proto__`: zod drops such a key and reports nothing. */
function hasProto(raw: unknown): boolean {
  const data = valueAt(raw, 'data');
  return isObject(data) && Object.hasOwn(data, '__proto__');
}

/**
 * Values that no fault, log line or error may repeat: tokens, the texts of the alert, and the data for the app. In a malformed
 * job such a value may be in the wrong place, for example a token in place of a device or of its platform. So the values at
 * such places are private too.
 */
function isPrivate([field, inner, ...rest]: readonly PropertyKey[], value: unknown): boolean {
  switch (field) {
    case 'devices':
      return rest.at(-1) !== 'platform' || typeof value !== 'string' || value.length > 16;
    case 'channel':
      return inner !== 'storage' || typeof value !== 'string' || value.length > 16;
    case 'digest':
      return inner !== 'key' && inner !== 'maxSize';
    case 'liveActivity':
      return inner === undefined || inner === 'contentState' || inner === 'attributes';
    case 'apns':
    case 'android':
    case 'fcm':
      return inner === undefined || inner === 'payload' || inner === 'message';
    default:
      return field === undefined || PRIVATE_FIELDS.has(field);
  }
}

const PRIVATE_FIELDS: ReadonlySet<PropertyKey> = new Set(['alert', 'data', 'imageUrl', 'webpush']);

/** The fields at each place of a notification. The place `devices` stands for every entry of that list. */
const FIELDS: ReadonlyMap<string, readonly string[]> = new Map([
  ['', Object.keys(notificationSchema.shape)],
  ['devices', [...new Set(DEVICE_KINDS.flatMap(({ schema }) => Object.keys(schema.shape)))]],
  ['channel', Object.keys(channelSchema.shape)],
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
 * For an unknown field, the field that the producer probably meant: the same name at another place (`channelId` →
 * `android.channelId`), otherwise a similar name at the same place (`treadId` in `apns` → `threadId`).
 */
function meantField(place: readonly PropertyKey[], name: string): string | undefined {
  const here = place.filter((part) => typeof part !== 'number').join('.');
  // The place `devices` has the fields of all platforms, so `name` may be a field of another platform.
  const fields = FIELDS.get(here) ?? [];
  const others = fields.filter((field) => field !== name);
  const near = nearest(name, others);
  if (near?.toLowerCase() === name.toLowerCase() || others.length < fields.length) return near;
  const meant = MEANT.get(here) ?? {};
  // `channelId` → `android.channelId`, although `channel` is near
  return Object.hasOwn(meant, name) ? meant[name] : (elsewhere(name, here) ?? meantOption(name, fields));
}

/** Names that other push libraries give to fields, by the place of the unknown field. */
const MEANT: ReadonlyMap<string, MeantNames> = new Map([
  [
    '',
    {
      ...{ notification: 'alert', message: 'alert.body', text: 'alert.body', image: 'imageUrl' },
      ...{ to: 'recipientId', user: 'recipientId', userId: 'recipientId', tokens: 'devices' },
      ...{ collapseKey: 'collapseId', ttl: 'expiresAt', delay: 'sendAfter', sendAt: 'sendAfter' },
    },
  ],
  ['alert', { message: 'body', text: 'body' }],
]);

function elsewhere(name: string, here: string): string | undefined {
  for (const [place, fields] of FIELDS) {
    if (place === here) continue;
    const same = fields.find((field) => field.toLowerCase() === name.toLowerCase());
    if (same !== undefined) return place === '' ? same : `${place}.${same}`;
  }
  return undefined;
}

/** Which notifications to cancel: one by its id, or all waiting notifications of a recipient with one cancellation key. */
export type CancelTarget =
  | {
      /** The id with which the notification was enqueued. */
      readonly id: string;
    }
  | {
      /** The recipient of the notifications. */
      readonly recipientId: string;
      /** The `cancellationKey` with which they were enqueued. */
      readonly cancellationKey: string;
    };

/** The result of a cancel. */
export interface Canceled {
  /** How many notifications will not be sent, including those that were canceled before. */
  readonly canceled: number;
  /** How many cannot be canceled any more: they are being sent, may have alerted a device, or have ended. */
  readonly tooLate: number;
}

/** Which notifications to take back, and the new number on the app's icon. */
export type RetractTarget = CancelTarget & {
  /** From 0 to 2,147,483,647. Default: the icons stay as they are. */
  readonly badge?: number | undefined;
};

/** The result of a retract. For a target with an `id`, one of the counts is 1. */
export interface Retracted {
  /** How many waited and will not be sent, including those that were canceled before. */
  readonly canceled: number;
  /** How many have alerted devices or are being sent: they are taken back from those devices. */
  readonly retracting: number;
  /** How many have ended without alerting a device, or only as a part of a digest: they are not taken back. */
  readonly ended: number;
  /** 1 if no notification has the id. A notification that is enqueued with this id within the next hour is not sent. */
  readonly unknown: number;
}

const { cancellationKey, badge } = notificationSchema.shape;
const byIdSchema = z.strictObject({ id: storedId });
const byKeySchema = z.strictObject({ recipientId: storedRecipientId, cancellationKey: cancellationKey.unwrap() });

type Parsed<Target> =
  { readonly ok: true; readonly target: Target } | { readonly ok: false; readonly faults: readonly Fault[] };

/** Checks the target that a producer gives, or the data of a job named `cancel`. */
export function parseCancelTarget(raw: unknown): Parsed<CancelTarget> {
  return parseTarget<CancelTarget>(raw, byIdSchema, byKeySchema);
}

/** Checks the target that a producer gives, or the data of a job named `retract`. */
export function parseRetractTarget(raw: unknown): Parsed<RetractTarget> {
  return parseTarget<RetractTarget>(raw, byIdSchema.extend({ badge }), byKeySchema.extend({ badge }));
}

function parseTarget<Target>(raw: unknown, byId: z.ZodType<Target>, byKey: z.ZodType<Target>): Parsed<Target> {
  if (!isObject(raw) || Object.keys(raw).length === 0) {
    const expected = 'an object with an id, or with a recipientId and a cancellationKey';
    return { ok: false, faults: [faultOf('', expected, raw, true)] };
  }
  const result = ('id' in raw ? byId : byKey).safeParse(raw);
  return result.success ? { ok: true, target: result.data } : { ok: false, faults: zodFaults(result.error, raw) };
}
