import { z } from 'zod';
import { isObject, jsonObject, printable } from '../../domain/json.ts';

/**
 * The fields of a notification for Apple's devices: iPhones on APNs, and those that FCM passes on to APNs.
 * developer.apple.com/documentation/usernotifications/generating-a-remote-notification ("Payload key reference") has the keys,
 * their types and the ranges; it gives no lengths of texts, so 256 characters are our bound.
 */

/** Apple's levels; `active` is what a device takes without one. */
const INTERRUPTION_LEVELS = ['passive', 'active', 'time-sensitive', 'critical'] as const;

export const apnsSoundSchema = z.strictObject({
  name: printable(128).describe(
    "The name of a sound of the app, or `default` for the system's. 1 to 128 printable characters. Example: `bell.caf`.",
  ),
  critical: z
    .boolean()
    .optional()
    .describe(
      '`true`: it sounds even if the device is muted; the app needs a permission from Apple for it. Default: `false`.',
    ),
  volume: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe('Of a critical alert, from 0 (silent) to 1 (full). Default: the device decides. Example: `0.8`.'),
});

export const apnsFieldsSchema = z.strictObject({
  threadId: printable(256)
    .optional()
    .describe(
      'Notifications with the same one are shown as a group. 1 to 256 printable characters. Default: none. Example: `class-7b`.',
    ),
  actionCategory: printable(256)
    .optional()
    .describe(
      'The category of the app (`UNNotificationCategory`) whose actions are shown as buttons. Not the `category` of the limits. 1 to 256 printable characters. Default: none. Example: `FORM`.',
    ),
  interruptionLevel: z
    .enum(INTERRUPTION_LEVELS)
    .optional()
    .describe(
      '`passive`: no light and no sound; `active`; `time-sensitive`: breaks through a Focus; `critical`: needs a permission from Apple. With `onThrottle: silence` it becomes `passive`. Default: `active`, by the device.',
    ),
  relevanceScore: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe('What the system shows first in a summary: from 0 to 1, the highest. Default: none. Example: `0.7`.'),
  mutableContent: z
    .boolean()
    .optional()
    .describe(
      '`true`: a service extension of the app may change the notification before it is shown. Default: `true` with `imageUrl`, otherwise `false`.',
    ),
  targetContentId: printable(256)
    .optional()
    .describe(
      'Which window of the app is brought forward. 1 to 256 printable characters. Default: none. Example: `inbox`.',
    ),
  sound: apnsSoundSchema
    .optional()
    .describe(
      "For iPhones in place of the notification's `sound`: with a volume, or for a critical alert. Default: none.",
    ),
  priority: z
    .union([z.literal(1), z.literal(5), z.literal(10)], { error: '1, 5 or 10' })
    .optional()
    .describe(
      '10: delivered at once; 5: when it suits the power of the device; 1: its power goes before everything else, and it is not woken. With 5 and 1 several may arrive together, closer than the limits say. A silent alert has 5, or 1 if that is asked for; a background push has 5. Default: 10, and 5 for a background push or a silent one.',
    ),
  topic: z
    .string()
    .regex(/^[A-Za-z0-9.-]{1,255}$/, { error: 'a topic: 1 to 255 of A-Z a-z 0-9 . -' })
    .optional()
    .describe(
      'The app, where it is another one of the same team than `APNS_TOPIC` names: its bundle id. For APNs devices only. 1 to 255 of `A-Z a-z 0-9 . -`. Default: `APNS_TOPIC`. Example: `com.example.school.watchkitapp`.',
    ),
  payload: jsonObject(({ aps }) =>
    aps === undefined || isObject(aps) ? [] : [{ path: ['aps'], expected: "an object, in which Apple's keys are" }],
  )
    .optional()
    .describe(
      'For all that has no field here: it is merged into the payload at the end, as a JSON Merge Patch (RFC 7396): objects name by name, `null` removes, everything else replaces. Default: none. Example: `{ "aps": { "filter-criteria": "7b" } }`.',
    ),
});

/** Those that say how an alert is shown: nothing that shows no alert may have them. */
export const SHOWN_BY_APNS = [
  'threadId',
  'actionCategory',
  'interruptionLevel',
  'relevanceScore',
  'mutableContent',
  'targetContentId',
  'sound',
] as const satisfies readonly (keyof typeof apnsFieldsSchema.shape)[];
