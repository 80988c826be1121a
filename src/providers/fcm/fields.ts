import { z } from 'zod';
import { isObject, type JsonObject, type JsonValue, jsonObject, type Misplaced, printable } from '../../domain/json.ts';
import { isReservedKey } from '../device-kind.ts';

/**
 * The fields of a notification for Android (`android`), and for FCM whatever the device (`fcm`, `analyticsLabel`).
 * firebase.google.com/docs/reference/fcm/rest/v1/projects.messages has the fields, their types and the values; it gives no
 * lengths of texts, so 256 characters are our bound.
 */

/** Keys of `data`. A `*` at the end stands for every key that begins like this. */
export const FCM_RESERVED_DATA_KEYS = ['from', 'message_type', 'google*', 'gcm*'];

/** FCM's `Visibility`, in lower case. */
const VISIBILITIES = ['private', 'public', 'secret'] as const;

export const androidFieldsSchema = z.strictObject({
  dataOnly: z
    .boolean()
    .optional()
    .describe(
      '`true`: Android gets `data` alone, and the app draws the notification itself, from `data`, which must be there. No other field of `android` beside it. With `priority: "high"` it wakes a sleeping device. Silenced it has normal priority, and the key `pushpacer_silent` in the data. An iPhone shows the alert as without it. Default: `false`.',
    ),
  channelId: printable(256)
    .optional()
    .describe(
      "The notification channel (since Android 8), which the app has created. With `onThrottle: silence` the silent channel takes its place. 1 to 256 printable characters. Default: the channel in the app's manifest. Example: `homework`.",
    ),
  icon: printable(256)
    .optional()
    .describe(
      'The name of an icon (drawable) of the app. 1 to 256 printable characters. Default: the icon in the manifest. Example: `ic_form`.',
    ),
  color: z
    .string()
    .regex(/^#[0-9a-fA-F]{6}$/, { error: 'a color as #rrggbb' })
    .optional()
    .describe('The color of the icon, as `#rrggbb`. Default: the color in the manifest. Example: `#1a73e8`.'),
  clickAction: printable(256)
    .optional()
    .describe(
      'A touch starts the activity with this intent filter. 1 to 256 printable characters. Default: the app starts. Example: `OPEN_FORM`.',
    ),
  tag: printable(256)
    .optional()
    .describe(
      'In the drawer it replaces a notification with the same tag. 1 to 256 printable characters. Default: the `collapseId`, otherwise the push id. Example: `class-7b`.',
    ),
  visibility: z
    .enum(VISIBILITIES)
    .optional()
    .describe(
      'On the lock screen: `private` hides what is private, `public` shows everything, `secret` shows nothing. Default: `private`, by the device.',
    ),
  notificationCount: z
    .int()
    .min(0)
    .max(2_147_483_647)
    .optional()
    .describe(
      "The number at the app's icon, in place of `badge`, from 0 to 2,147,483,647; 0: Android counts by itself. Default: `badge`. Example: `3`.",
    ),
});

export const fcmFieldsSchema = z.strictObject({
  message: jsonObject(misplacedIn)
    .optional()
    .describe(
      'For all that has no field here: it is merged into FCM\'s message at the end, as a JSON Merge Patch (RFC 7396): objects name by name, `null` removes, everything else replaces. Names as in Google\'s reference, `channel_id`; no `token`, `topic`, `condition`, `fid` or `name`. Default: none. Example: `{ "android": { "direct_boot_ok": true } }`.',
    ),
});

/** firebase.google.com/docs/cloud-messaging/understand-delivery ("Adding analytics labels to messages"). */
export const analyticsLabelSchema = z
  .string()
  .regex(/^[A-Za-z0-9_.~%-]{1,50}$/, { error: '1 to 50 of A-Z a-z 0-9 - _ . ~ %' })
  .optional()
  .describe(
    "A label for FCM's reports; Google takes at most 100 different ones a day. 1 to 50 of `A-Z a-z 0-9 - _ . ~ %`. Default: none. Example: `homework`.",
  );

/** The parts of a message that a device shows. */
export const SHOWN_BY_FCM = ['notification', 'android.notification', 'apns.fcm_options.image', 'webpush.notification'];

/** A message has one target, the device, and Google writes `name`. */
const NOT_OURS = ['token', 'topic', 'condition', 'fid', 'name'];
/** Maps whose names the sender chooses. */
const OWN_NAMES = new Set(['data', 'headers', 'payload']);

function misplacedIn(message: JsonObject): Misplaced[] {
  const targets = NOT_OURS.filter((name) => name in message).map((name) => ({
    path: [name],
    expected: 'none: the device decides where a message goes',
  }));
  return [
    ...targets,
    ...misnamed(message, []),
    ...badData(message['data'], ['data']),
    ...badData(inner(message), ['android', 'data']),
  ];
}

const inner = ({ android }: JsonObject): JsonValue | undefined => (isObject(android) ? android['data'] : undefined);

/** Google reads `channelId` as well as `channel_id`, but refuses a message with both, as a merge would make it. */
function misnamed(value: JsonValue, path: readonly PropertyKey[]): Misplaced[] {
  if (Array.isArray(value)) return value.flatMap((each, index) => misnamed(each, [...path, index]));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([name, each]) => {
    const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (snake !== name) return [{ path: [...path, name], expected: `the name as in Google's reference, ${snake}` }];
    // A browser's notification has the names of the Web, `requireInteraction`.
    const hasOwnNames = OWN_NAMES.has(name) || (name === 'notification' && path[0] === 'webpush');
    return hasOwnNames ? [] : misnamed(each, [...path, name]);
  });
}

/** FCM takes only texts, and reserves some keys. */
function badData(data: JsonValue | undefined, path: readonly PropertyKey[]): Misplaced[] {
  if (data === undefined || data === null) return [];
  if (!isObject(data)) return [{ path, expected: 'an object of texts' }];
  return Object.entries(data).flatMap(([key, value]) => {
    if (isReservedKey(key, FCM_RESERVED_DATA_KEYS))
      return [{ path: [...path, key], expected: 'a key that FCM does not reserve' }];
    return typeof value === 'string' || value === null ? [] : [{ path: [...path, key], expected: 'a text' }];
  });
}
