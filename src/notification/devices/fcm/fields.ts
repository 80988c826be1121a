import { z } from 'zod';
import {
  isObject,
  type JsonObject,
  type JsonValue,
  jsonObject,
  type Misplaced,
  printable,
} from '../../../domain/json.ts';
import { isReservedKey } from '../device-kind.ts';

/**
 * The fields of a notification for Android (`android`), and for FCM on any device (`fcm`, `analyticsLabel`).
 * firebase.google.com/docs/reference/fcm/rest/v1/projects.messages has the fields, their types and the values. It gives no
 * lengths of texts, so 256 characters are this project's bound.
 */

/** Keys of `data` that FCM reserves. A `*` at the end stands for every key that begins like this. */
export const FCM_RESERVED_DATA_KEYS = ['from', 'message_type', 'google*', 'gcm*'];

/** FCM's `Visibility`, in lower case. */
const VISIBILITIES = ['private', 'public', 'secret'] as const;

export const androidFieldsSchema = z.strictObject({
  dataOnly: z.boolean().optional(),
  channelId: printable(256).optional(),
  icon: printable(256).optional(),
  color: z
    .string()
    .regex(/^#[0-9a-fA-F]{6}$/, { error: 'a color as #rrggbb' })
    .optional(),
  clickAction: printable(256).optional(),
  tag: printable(256).optional(),
  visibility: z.enum(VISIBILITIES).optional(),
  notificationCount: z.int().min(0).max(2_147_483_647).optional(),
});

export const fcmFieldsSchema = z.strictObject({
  message: jsonObject(misplacedIn).optional(),
});

/** firebase.google.com/docs/cloud-messaging/understand-delivery ("Adding analytics labels to messages"). */
export const analyticsLabelSchema = z
  .string()
  .regex(/^[A-Za-z0-9_.~%-]{1,50}$/, { error: '1 to 50 of A-Z a-z 0-9 - _ . ~ %' })
  .optional();

/** The parts of a message that a device shows. */
export const SHOWN_BY_FCM = ['notification', 'android.notification', 'apns.fcm_options.image', 'webpush.notification'];

/** Fields that a patch may not set: the target of a message is the device, and Google itself writes `name`. */
const NOT_OURS = ['token', 'topic', 'condition', 'fid', 'name'];
/** Google takes no message with `android` and `android_v2`. pushpacer writes the second one from the first. */
const V2 = 'none: write into android, and set FCM_ANDROID_V2';
/** Objects whose keys the sender chooses. */
const OWN_NAMES = new Set(['data', 'headers', 'payload']);

function misplacedIn(message: JsonObject): Misplaced[] {
  const targets = NOT_OURS.filter((name) => name in message).map((name) => ({
    path: [name],
    expected: 'none: the device decides where a message goes',
  }));
  const newer = 'android_v2' in message ? [{ path: ['android_v2'], expected: V2 }] : [];
  return [
    ...targets,
    ...newer,
    ...misnamed(message, []),
    ...badData(message['data'], ['data']),
    ...badData(inner(message), ['android', 'data']),
  ];
}

const inner = ({ android }: JsonObject): JsonValue | undefined => (isObject(android) ? android['data'] : undefined);

/**
 * Finds names in camel case. Google reads `channelId` as well as `channel_id`, but refuses a message with both, and a merge
 * would write both.
 */
function misnamed(value: JsonValue, path: readonly PropertyKey[]): Misplaced[] {
  if (Array.isArray(value)) return value.flatMap((each, index) => misnamed(each, [...path, index]));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([name, each]) => {
    const snake = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (snake !== name) return [{ path: [...path, name], expected: `the name as in Google's reference, ${snake}` }];
    // A browser's notification has the names of the web, such as `requireInteraction`.
    const hasOwnNames = OWN_NAMES.has(name) || (name === 'notification' && path[0] === 'webpush');
    return hasOwnNames ? [] : misnamed(each, [...path, name]);
  });
}

/** The faults of data in a patch: FCM takes only texts, and reserves some keys. */
function badData(data: JsonValue | undefined, path: readonly PropertyKey[]): Misplaced[] {
  if (data === undefined || data === null) return [];
  if (!isObject(data)) return [{ path, expected: 'an object of texts' }];
  return Object.entries(data).flatMap(([key, value]) => {
    if (isReservedKey(key, FCM_RESERVED_DATA_KEYS))
      return [{ path: [...path, key], expected: 'a key that FCM does not reserve' }];
    return typeof value === 'string' || value === null ? [] : [{ path: [...path, key], expected: 'a text' }];
  });
}
