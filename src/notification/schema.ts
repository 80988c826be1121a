import { z } from 'zod';
import { apnsFieldsSchema, channelSchema } from './devices/apns/fields.ts';
import { isReservedKey, type DeviceKind } from './devices/device-kind.ts';
import { DEVICE_KINDS } from './devices/devices.ts';
import { analyticsLabelSchema, androidFieldsSchema, fcmFieldsSchema } from './devices/fcm/fields.ts';
import { webpushFieldsSchema } from './devices/webpush/fields.ts';
import { printable, jsonObject, wellFormed, jsonValue, ID, ID_FORMAT, nameable } from '../domain/json.ts';
import type { Alert, Device, DigestFields, Notification } from './types.ts';
import { INSTANT_FORMAT } from '../domain/time.ts';

/**
 * What a notification may contain. The types of the fields, with their descriptions, are in types.ts; `npm run schema` makes
 * docs/notification.schema.json from both files.
 */

const alertText = () => z.string().max(4096).optional();
const locKey = () => printable(256).optional();
const locArgs = () => z.array(z.string().max(4096)).max(100).optional();

/** What a device shows. The names on the wire: docs/notifications.md. */
export const alertSchema = z.strictObject({
  title: alertText(),
  subtitle: alertText(),
  body: alertText(),
  titleLocKey: locKey(),
  titleLocArgs: locArgs(),
  subtitleLocKey: locKey(),
  subtitleLocArgs: locArgs(),
  bodyLocKey: locKey(),
  bodyLocArgs: locArgs(),
});

/** Whether the device has something to show. */
function isShown({ title = '', body = '', titleLocKey, bodyLocKey }: z.output<typeof alertSchema>): boolean {
  return title + body !== '' || titleLocKey !== undefined || bodyLocKey !== undefined;
}

/** A smaller number is in seconds by mistake. This number itself, read as seconds, lies 31,000 years ahead. */
const EARLIEST_MS = Date.UTC(2001, 0, 1);
const epochMs = z
  .int()
  .refine((at) => at >= EARLIEST_MS, { error: 'epoch milliseconds or ISO 8601 (it looks like seconds)' })
  .meta({ minimum: EARLIEST_MS });
const instantSchema = z
  .union([z.iso.datetime({ offset: true, error: INSTANT_FORMAT }), epochMs], { error: INSTANT_FORMAT })
  .transform((at) => (typeof at === 'number' ? at : Date.parse(at)));

export const LIVE_ACTIVITY_EVENTS = ['start', 'update', 'end'] as const;

/**
 * What a push does to a Live Activity. The names on the wire:
 * developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
 */
export const liveActivitySchema = z.strictObject({
  event: z.enum(LIVE_ACTIVITY_EVENTS),
  contentState: jsonObject(() => []),
  timestamp: instantSchema.optional(),
  staleDate: instantSchema.optional(),
  dismissalDate: instantSchema.optional(),
  relevanceScore: z.number().min(0).optional(),
  attributesType: printable(256).optional(),
  attributes: jsonObject(() => []).optional(),
});

/** The largest `maxSize` of a digest, and the default. */
export const MAX_DIGEST = 1_000;
export const DEFAULT_DIGEST = 100;

/** The only placeholder in the texts of a digest. */
const COUNT = '{{count}}';
const ANY_PLACEHOLDER = /\{\{(?!count\}\})/;

const digestText = () =>
  z
    .string()
    .max(4096)
    .refine((value) => !ANY_PLACEHOLDER.test(value), { error: `no other placeholder than ${COUNT}` })
    .meta({ pattern: '^(?![\\s\\S]*\\{\\{(?!count\\}\\}))' })
    .optional();

/** The alert that is sent in place of several notifications that wait. */
export const digestSchema = z.strictObject({
  key: printable(128),
  title: digestText(),
  body: digestText(),
  maxSize: z.int().min(2).max(MAX_DIGEST).optional(),
});

/** Keys of `data` that the providers reserve. A `*` at the end stands for every key that begins like this. */
export const RESERVED_DATA_KEYS: readonly string[] = DEVICE_KINDS.flatMap((kind) => kind.reservedDataKeys);

/** The platforms that a device may be on, one for each provider. */
export const PLATFORMS = Object.freeze(DEVICE_KINDS.map(({ schema }) => schema.shape.platform.value));
const deviceSchema = z.discriminatedUnion('platform', schemasOf(DEVICE_KINDS), {
  error: PLATFORMS.map((platform) => `"${platform}"`).join(' or '),
});

const IMAGE_URL = /^https:\/\/[\x21-\x7e]{1,2040}$/;
const imageUrlSchema = z
  .string()
  .refine((url) => IMAGE_URL.test(url) && URL.canParse(url), { error: 'an https URL of up to 2048 characters' })
  .meta({ pattern: IMAGE_URL.source });

/** What is looked up may have been stored by an earlier version, which took `.` and `..` too. */
export const storedId = z.string().regex(ID, { error: ID_FORMAT });
export const storedRecipientId = printable(256);

const fields = z.strictObject({
  id: nameable(storedId),
  recipientId: nameable(storedRecipientId),
  devices: z
    .array(deviceSchema)
    .min(1)
    .max(20)
    .optional()
    .transform((devices = []) => devices), // rules.ts reports that neither devices nor a channel is there
  channel: channelSchema.optional(),
  pushType: z.enum(['alert', 'background', 'liveactivity']).default('alert'),
  alert: alertSchema.refine(isShown, { error: 'a title or a body that is not empty' }).optional(),
  liveActivity: liveActivitySchema.optional(),
  data: z
    .record(
      z.string().refine((key) => !isReservedKey(key, RESERVED_DATA_KEYS), {
        error: `a key other than ${listed(RESERVED_DATA_KEYS)}, which the providers reserve`,
      }),
      jsonValue(),
    )
    .optional(),
  sound: printable(128).optional(),
  imageUrl: imageUrlSchema.optional(),
  badge: z.int().min(0).max(2_147_483_647).optional(),
  category: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, { error: '1 to 64 of A-Z a-z 0-9 . _ -' })
    .optional(),
  priority: z.enum(['high', 'normal']).default('normal'),
  collapseId: printable(64)
    .refine((text) => Buffer.byteLength(text) <= 64, { error: 'at most 64 bytes' })
    .optional(),
  sendAfter: instantSchema.optional(),
  expiresAt: instantSchema.optional(),
  cancellationKey: printable(128).optional(),
  onThrottle: z.enum(['delay', 'latest', 'digest', 'drop', 'silence']).default('delay'),
  digest: digestSchema.optional(),
  onQuiet: z.enum(['delay', 'silence', 'drop']).default('delay'),
  apns: apnsFieldsSchema.optional(),
  android: androidFieldsSchema.optional(),
  fcm: fcmFieldsSchema.optional(),
  webpush: webpushFieldsSchema.optional(),
  analyticsLabel: analyticsLabelSchema,
});

/**
 * The job's data: one message to one recipient, for one or more devices. Every size check, every encoder and the digest see the
 * parsed value of this schema, so texts are made well-formed here, and nowhere else.
 */
export const notificationSchema = fields.overwrite((given) => wellFormed(withTarget(withoutNulls(given))));

/** A channel is one target at APNs, so it is treated as one device, whose token is the channel's id. */
function withTarget(given: z.output<typeof fields>): z.output<typeof fields> {
  const { channel } = given;
  if (channel === undefined) return given;
  return { ...given, devices: [{ platform: 'apns', token: channel.id, app: channel.app }] satisfies Device[] };
}

/** Removes keys of `data` whose value is null: Apple allows no null among the values of custom keys. */
function withoutNulls(given: z.output<typeof fields>): z.output<typeof fields> {
  const { data } = given;
  if (data === undefined || !Object.values(data).includes(null)) return given;
  return { ...given, data: Object.fromEntries(Object.entries(data).filter(([, value]) => value !== null)) };
}

/** The schemas of these kinds of devices, each with its own type. */
function schemasOf<const Kinds extends readonly DeviceKind[]>(kinds: Kinds) {
  return kinds.map(({ schema }) => schema) as { [Index in keyof Kinds]: Kinds[Index]['schema'] };
}

/** `a, b and c` */
function listed(names: readonly string[]): string {
  return names.join(', ').replace(/, ([^,]*)$/, ' and $1');
}

/** The notification with the alert of a digest of `count` notifications. Everything else stays the same. */
export function asDigest(notification: Notification, count: number): Notification {
  const { digest } = notification;
  if (digest === undefined) return notification;
  return { ...notification, alert: textsOf(digest, count) };
}

function textsOf({ title, body }: DigestFields, count: number): Alert {
  const filled = (words: string): string => words.replaceAll(COUNT, String(count));
  return {
    ...(title !== undefined && { title: filled(title) }),
    ...(body !== undefined && { body: filled(body) }),
  };
}
