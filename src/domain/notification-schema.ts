import { z } from 'zod';
import { apnsFieldsSchema } from '../providers/apns/fields.ts';
import { isReservedKey, type DeviceKind } from '../providers/device-kind.ts';
import { DEVICE_KINDS } from '../providers/devices.ts';
import { analyticsLabelSchema, androidFieldsSchema, fcmFieldsSchema } from '../providers/fcm/fields.ts';
import { webpushFieldsSchema } from '../providers/webpush/fields.ts';
import { printable, jsonObject, wellFormed, jsonValue, ID, ID_FORMAT } from './json.ts';
import type { Alert, DigestFields, Notification } from './notification-types.ts';

const alertText = (most = 4096) => z.string().max(most).optional();
const locKey = (what: string) =>
  printable(256)
    .optional()
    .describe(
      `The key of the ${what} in the app's own texts, so that the device shows it in its language. It goes before \`${what}\`. 1 to 256 printable characters. Default: none. Example: \`FORMS_${what.toUpperCase()}\`.`,
    );
const locArgs = (key: string) =>
  z
    .array(z.string().max(4096))
    .max(100)
    .optional()
    .describe(
      `What stands in the places that the text of \`${key}\` leaves open. Up to 100 texts of up to 4,096 characters; only with \`${key}\`. Default: none. Example: \`["Room 12"]\`.`,
    );

/** What a device shows. The names on the wire: docs/notifications.md. */
export const alertSchema = z.strictObject({
  title: alertText().describe('Up to 4,096 characters. Default: none. Example: `Room 12`.'),
  subtitle: alertText().describe(
    'The line between title and body, on iPhones only. Up to 4,096 characters. Default: none. Example: `Class 7b`.',
  ),
  body: alertText().describe('Up to 4,096 characters. Default: none. Example: `Field trip forms are due`.'),
  titleLocKey: locKey('title'),
  titleLocArgs: locArgs('titleLocKey'),
  subtitleLocKey: locKey('subtitle'),
  subtitleLocArgs: locArgs('subtitleLocKey'),
  bodyLocKey: locKey('body'),
  bodyLocArgs: locArgs('bodyLocKey'),
});

/** Whether the device has something to show. */
function isShown({ title = '', body = '', titleLocKey, bodyLocKey }: z.output<typeof alertSchema>): boolean {
  return title + body !== '' || titleLocKey !== undefined || bodyLocKey !== undefined;
}

/**
 * What a push does to a Live Activity. The names on the wire:
 * developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
 */
export const LIVE_ACTIVITY_EVENTS = ['start', 'update', 'end'] as const;

/** @param instant the schema of an instant, as in the notification's other fields */
const liveActivityFields = <Instant extends z.ZodType>(instant: Instant) =>
  z.strictObject({
    event: z
      .enum(LIVE_ACTIVITY_EVENTS)
      .describe(
        '`start` begins a Live Activity, and goes to a push-to-start token; `update` and `end` go to the token of the activity.',
      ),
    contentState: jsonObject(() => []).describe(
      'The state that is shown, the last one with `end`: a JSON object with the names and types of the app\'s `ContentState`. Example: `{ "score": "2 : 1" }`.',
    ),
    timestamp: instant
      .optional()
      .describe(
        'When this was the state; a device shows no state that is older than the one it has. RFC 3339 with `Z` or an offset, or epoch milliseconds; Apple gets whole seconds. Default: when it is sent. Example: `2026-11-21T17:00:00Z`.',
      ),
    staleDate: instant
      .optional()
      .describe(
        'From then on the system calls the state stale, and the app may show it so. Written like `timestamp`. Default: none. Example: `2026-11-21T17:15:00Z`.',
      ),
    dismissalDate: instant
      .optional()
      .describe(
        'With `end`: when it leaves the lock screen; at once if that has passed. Written like `timestamp`. Default: after four hours, by the system. Example: `2026-11-21T19:00:00Z`.',
      ),
    relevanceScore: z
      .number()
      .min(0)
      .optional()
      .describe(
        'Of several activities of the app, which one is shown first: the highest. Any number from 0. Default: none. Example: `75`.',
      ),
    attributesType: printable(256)
      .optional()
      .describe(
        "The name of the app's `ActivityAttributes` structure. 1 to 256 printable characters; with `start` it must be there, otherwise it may not. Default: none. Example: `MatchAttributes`.",
      ),
    attributes: jsonObject(() => [])
      .optional()
      .describe(
        'What does not change while the activity lasts: a JSON object; with `start` it must be there, otherwise it may not. Default: none. Example: `{ "home": "7b", "away": "7c" }`.',
      ),
  });

/** How many notifications may be in one digest, and how many are if the producer does not say. */
export const MAX_DIGEST = 1_000;
export const DEFAULT_DIGEST = 100;

/** The only placeholder. */
const COUNT = '{{count}}';
const ANY_PLACEHOLDER = /\{\{(?!count\}\})/;

const digestText = z
  .string()
  .max(4096)
  .refine((value) => !ANY_PLACEHOLDER.test(value), { error: `no other placeholder than ${COUNT}` })
  .meta({ pattern: '^(?![\\s\\S]*\\{\\{(?!count\\}\\}))' })
  .optional();

/** What goes in place of several notifications that wait. */
export const digestSchema = z.strictObject({
  key: printable(128).describe(
    'Notifications to one recipient with the same key (and the same `category`) go together. 1 to 128 printable characters. Example: `thread-77`.',
  ),
  title: digestText.describe(
    'The title of the digest; `{{count}}` becomes the number of notifications in it. Up to 4,096 characters. Default: none. Example: `Class 7b`.',
  ),
  body: digestText.describe(
    'The body of the digest; `{{count}}` becomes the number of notifications in it. Up to 4,096 characters. Default: none. Example: `{{count}} new messages`.',
  ),
  maxSize: z
    .int()
    .min(2)
    .max(MAX_DIGEST)
    .optional()
    .describe(
      `At most so many notifications are in one digest, from 2 to 1,000; the next one begins another digest. Default: ${DEFAULT_DIGEST}. Example: \`50\`.`,
    ),
});

/** What the devices show for a digest of so many. Everything but the texts is as in the notification. */
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

/**
 * Each field with its checks and, last, its description. `npm run schema` copies the descriptions into
 * docs/notification.schema.json and into the docstrings of notification-types.ts.
 */

/** Keys of `data` that the providers reserve. A `*` at the end stands for every key that begins like this. */
export const RESERVED_DATA_KEYS: readonly string[] = DEVICE_KINDS.flatMap((kind) => kind.reservedDataKeys);

/** The platforms that a device may be on, one for each provider. */
export const PLATFORMS = Object.freeze(DEVICE_KINDS.map(({ schema }) => schema.shape.platform.value));
const deviceSchema = z.discriminatedUnion('platform', schemasOf(DEVICE_KINDS), {
  error: PLATFORMS.map((platform) => `"${platform}"`).join(' or '),
});

const INSTANT_FORMAT = 'an RFC 3339 date-time or epoch milliseconds';
/** Numbers below it are Unix seconds by mistake: as seconds it lies 31,000 years ahead. */
const EARLIEST_MS = Date.UTC(2001, 0, 1);
const epochMs = z
  .int()
  .refine((at) => at >= EARLIEST_MS, { error: 'epoch milliseconds or ISO 8601 (it looks like seconds)' })
  .meta({ minimum: EARLIEST_MS });
const instantSchema = z
  .union([z.iso.datetime({ offset: true, error: INSTANT_FORMAT }), epochMs], { error: INSTANT_FORMAT })
  .transform((at) => (typeof at === 'number' ? at : Date.parse(at)));

export const liveActivitySchema = liveActivityFields(instantSchema);

const IMAGE_URL = /^https:\/\/[\x21-\x7e]{1,2040}$/;
const imageUrlSchema = z
  .string()
  .refine((url) => IMAGE_URL.test(url) && URL.canParse(url), { error: 'an https URL of up to 2048 characters' })
  .meta({ pattern: IMAGE_URL.source });

/** The fields of a notification. */
const fields = z.strictObject({
  id: z
    .string()
    .regex(ID, { error: ID_FORMAT })
    .describe(
      'Idempotency key, and the job id: the same id twice is one notification. 1 to 128 of `A-Z a-z 0-9 . _ ~ -`. Example: `msg-8841`.',
    ),
  recipientId: printable(256).describe(
    'The person whom the limits protect, whatever the device. 1 to 256 printable characters. Example: `teacher-42`.',
  ),
  devices: z
    .array(deviceSchema)
    .min(1)
    .max(20)
    .describe(
      "The recipient's devices, 1 to 20. The limits count the notification once, however many devices it goes to.",
    ),
  pushType: z
    .enum(['alert', 'background', 'liveactivity'])
    .default('alert')
    .describe(
      '`alert` is shown. `background` shows nothing and wakes the app to fetch what is new: it has no `alert`, `sound`, `badge`, `imageUrl`, `android` and `webpush`, and limits of its own (`LIMIT_BACKGROUND_RULES`). `liveactivity` starts, changes or ends a Live Activity of an iPhone (`liveActivity`), on APNs only; without an `alert` it has limits of its own (`LIMIT_LIVE_ACTIVITY_RULES`). Default: `alert`.',
    ),
  alert: alertSchema
    .refine(isShown, { error: 'a title or a body that is not empty' })
    .optional()
    .describe(
      'What is shown: a title, a body or both, or the keys of them; one must not be empty. With everything else that the device gets at most 4,096 bytes, the limit of the providers. Must be there unless `pushType` is `background`, or `liveactivity` with another event than `start`.',
    ),
  liveActivity: liveActivitySchema
    .optional()
    .describe(
      'What happens to a Live Activity; must be there if `pushType` is `liveactivity`, and only then. Beside it there may be `alert` and `sound`, and of `apns` only `priority`, `topic` and `payload`. Default: none. Example: `{ "event": "update", "contentState": { "score": "2 : 1" } }`.',
    ),
  data: z
    .record(
      z.string().refine((key) => !isReservedKey(key, RESERVED_DATA_KEYS), {
        error: `a key other than ${listed(RESERVED_DATA_KEYS)}, which the providers reserve`,
      }),
      jsonValue(),
    )
    .optional()
    .describe(
      `What the app gets beside the alert: any JSON values, each under a key. FCM carries only texts, so there a value that is no text becomes its JSON: \`{ "form": { "id": 7 } }\` arrives as the text \`{"id":7}\`. A key whose value is \`null\` is left out. The providers reserve the keys ${listed(RESERVED_DATA_KEYS.map((key) => `\`${key}\``))}, where \`*\` stands for any characters. Default: none. Example: \`{ "threadId": "77" }\`.`,
    ),
  sound: printable(128)
    .optional()
    .describe(
      "The name of a sound of the app, or `default`; since Android 8 the app's notification channel decides there. 1 to 128 printable characters. Default: no sound.",
    ),
  imageUrl: imageUrlSchema
    .optional()
    .describe(
      'An image to show. An iPhone shows it only if the app has a service extension (docs/notifications.md). An `https` URL of up to 2,048 characters. Default: none. Example: `https://example.com/trip.jpg`.',
    ),
  badge: z
    .int()
    .min(0)
    .max(2_147_483_647)
    .optional()
    .describe(
      "The number on the app's icon, from 0 to 2,147,483,647. 0 removes it from an iPhone; Android then counts by itself, as without a badge. Default: none. Example: `3`.",
    ),
  category: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, { error: '1 to 64 of A-Z a-z 0-9 . _ -' })
    .optional()
    .describe(
      'What kind of notification it is. Limits can be set per category; the device does not get it. 1 to 64 of `A-Z a-z 0-9 . _ -`. Default: none. Example: `messages`.',
    ),
  priority: z
    .enum(['high', 'normal'])
    .default('normal')
    .describe(
      '`high` is taken from the queue before `normal`, and wakes a sleeping Android device. The limits are the same for both. Default: `normal`.',
    ),
  collapseId: printable(64)
    .refine((text) => Buffer.byteLength(text) <= 64, { error: 'at most 64 bytes' })
    .optional()
    .describe(
      'On the device it replaces an earlier notification with the same collapse id. 1 to 64 printable characters, at most 64 bytes of UTF-8. Default: none. Example: `thread-77`.',
    ),
  sendAfter: instantSchema
    .optional()
    .describe(
      'Not sent before this instant: it is taken from the queue, and begins to wait for its slot, then. At most 366 days ahead, and before `expiresAt`. RFC 3339 with `Z` or an offset, or epoch milliseconds. Default: at once. Example: `2026-11-21T07:00:00Z`.',
    ),
  expiresAt: instantSchema
    .optional()
    .describe(
      'Not delivered after this instant; its outcome is then `expired`. At most 366 days ahead. RFC 3339 with `Z` or an offset, or epoch milliseconds. Default: it does not expire. Example: `2026-11-21T18:00:00Z`.',
    ),
  cancellationKey: printable(128)
    .optional()
    .describe(
      'What several notifications of this recipient have in common, so that all that still wait can be canceled together (docs/waiting.md). The device does not get it. 1 to 128 printable characters. Default: none. Example: `trip-77`.',
    ),
  onThrottle: z
    .enum(['delay', 'latest', 'digest', 'drop', 'silence'])
    .default('delay')
    .describe(
      'What happens if the limits block it: `delay` waits for its slot; `latest` waits too, but of those with the same `collapseId` only the newest goes, in the slot of the oldest; `digest` joins the digest that waits (`digest`); `drop` ends it undelivered, `silence` delivers it now without sound, vibration or banner (not of a background push; a Live Activity goes without its `alert`). Default: `delay`.',
    ),
  digest: digestSchema
    .optional()
    .describe(
      'With `onThrottle: digest`: what is shown in place of several notifications that waited. A title or a body must be there. The first one that is not blocked goes at once with its own `alert`, and so does one that waited alone. Not of a background push. Default: none. Example: `{ "key": "thread-77", "title": "Class 7b", "body": "{{count}} new messages" }`.',
    ),
  onQuiet: z
    .enum(['delay', 'silence', 'drop'])
    .default('delay')
    .describe(
      "What happens in the recipient's quiet hours: `delay` waits for their end, `silence` delivers it now without sound, vibration or banner, `drop` ends it undelivered. Only `delay` with `onThrottle` `latest` or `digest`. It does not hold for a background push, nor for a Live Activity without an alert. Default: `delay`.",
    ),
  apns: apnsFieldsSchema
    .optional()
    .describe(
      'For Apple\'s devices only, on APNs or through FCM. Default: none. Example: `{ "threadId": "class-7b" }`.',
    ),
  android: androidFieldsSchema
    .optional()
    .describe('For Android devices only. Default: none. Example: `{ "channelId": "homework" }`.'),
  fcm: fcmFieldsSchema.optional().describe('For FCM devices only, whatever they are. Default: none.'),
  webpush: webpushFieldsSchema
    .optional()
    .describe('For browsers only. Default: none. Example: `{ "requireInteraction": true }`.'),
  analyticsLabel: analyticsLabelSchema,
});

/**
 * The job's data: one message to one recipient, for one or more devices. What it answers is what every size check, every encoder
 * and the digest see, so texts are made well-formed here, and nowhere else.
 */
export const notificationSchema = fields.overwrite((given) => wellFormed(withoutNulls(given)));

/** Apple names no null among the values of custom keys, so such a key of `data` is as one that is not there. */
function withoutNulls(given: z.output<typeof fields>): z.output<typeof fields> {
  const { data } = given;
  if (data === undefined || !Object.values(data).includes(null)) return given;
  return { ...given, data: Object.fromEntries(Object.entries(data).filter(([, value]) => value !== null)) };
}

/** The schemas of some kinds of devices, each with its own type. */
function schemasOf<const Kinds extends readonly DeviceKind[]>(kinds: Kinds) {
  return kinds.map(({ schema }) => schema) as { [Index in keyof Kinds]: Kinds[Index]['schema'] };
}

/** `a, b and c` */
function listed(names: readonly string[]): string {
  return names.join(', ').replace(/, ([^,]*)$/, ' and $1');
}
