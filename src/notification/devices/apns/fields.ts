import { z } from 'zod';
import { isObject, jsonObject, printable } from '../../../domain/json.ts';
import { appNameSchema } from '../device-kind.ts';

/**
 * The fields of a notification for Apple's devices, on APNs or through FCM.
 * developer.apple.com/documentation/usernotifications/generating-a-remote-notification ("Payload key reference") has the keys,
 * their types and the ranges. It gives no lengths of texts, so 256 characters are this project's bound.
 */

/** Apple's levels; without one, a device uses `active`. */
const INTERRUPTION_LEVELS = ['passive', 'active', 'time-sensitive', 'critical'] as const;

export const apnsSoundSchema = z.strictObject({
  name: printable(128),
  critical: z.boolean().optional(),
  volume: z.number().min(0).max(1).optional(),
});

export const apnsFieldsSchema = z.strictObject({
  threadId: printable(256).optional(),
  actionCategory: printable(256).optional(),
  interruptionLevel: z.enum(INTERRUPTION_LEVELS).optional(),
  relevanceScore: z.number().min(0).max(1).optional(),
  mutableContent: z.boolean().optional(),
  targetContentId: printable(256).optional(),
  sound: apnsSoundSchema.optional(),
  priority: z.union([z.literal(1), z.literal(5), z.literal(10)], { error: '1, 5 or 10' }).optional(),
  topic: z
    .string()
    .regex(/^[A-Za-z0-9.-]{1,255}$/, { error: 'a topic: 1 to 255 of A-Z a-z 0-9 . -' })
    .optional(),
  payload: jsonObject(({ aps }) =>
    aps === undefined || isObject(aps) ? [] : [{ path: ['aps'], expected: "an object, in which Apple's keys are" }],
  ).optional(),
});

/**
 * A broadcast channel (developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns). Apple
 * says that the id is base64 of any size. 256 characters are this project's bound, as for the recipient's id.
 */
export const channelSchema = z.strictObject({
  id: z.string().regex(/^[A-Za-z0-9+/_-]{1,254}={0,2}$/, { error: "a channel's id: 1 to 256 characters of base64" }),
  storage: z.enum(['none', 'most-recent']).optional(),
  app: appNameSchema.optional(),
});

/** The fields that say how an alert is shown: a push that shows no alert may not have them. */
export const SHOWN_BY_APNS = [
  'threadId',
  'actionCategory',
  'interruptionLevel',
  'relevanceScore',
  'mutableContent',
  'targetContentId',
  'sound',
] as const satisfies readonly (keyof typeof apnsFieldsSchema.shape)[];
