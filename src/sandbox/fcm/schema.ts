import { z } from 'zod';

/**
 * The body of `messages:send` with the fields and types of the API's reference
 * (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages), in camel case.
 */

const text = z.string().optional();
const flag = z.boolean().optional();
const texts = z.array(z.string()).optional();
const textMap = z.record(z.string(), z.string()).optional();
const struct = z.record(z.string(), z.unknown()).optional();
/** `3.5s` */
const duration = z.string().regex(/^-?\d+(\.\d{1,9})?s$/);
const share = z.number().min(0).max(1).optional();
const options = z.strictObject({ analyticsLabel: text }).optional();

const notification = z.strictObject({ title: text, body: text, image: text });
const androidNotification = z.strictObject({
  title: text,
  body: text,
  icon: text,
  color: text,
  sound: text,
  tag: text,
  clickAction: text,
  bodyLocKey: text,
  bodyLocArgs: texts,
  titleLocKey: text,
  titleLocArgs: texts,
  channelId: text,
  ticker: text,
  sticky: flag,
  eventTime: z.iso.datetime({ offset: true }).optional(),
  localOnly: flag,
  notificationPriority: z
    .enum(['UNSPECIFIED', 'MIN', 'LOW', 'DEFAULT', 'HIGH', 'MAX'].map((name) => `PRIORITY_${name}`))
    .optional(),
  defaultSound: flag,
  defaultVibrateTimings: flag,
  defaultLightSettings: flag,
  vibrateTimings: z.array(duration).optional(),
  visibility: z.enum(['VISIBILITY_UNSPECIFIED', 'PRIVATE', 'PUBLIC', 'SECRET']).optional(),
  notificationCount: z.int32().optional(),
  lightSettings: z
    .strictObject({
      color: z.strictObject({ red: share, green: share, blue: share, alpha: share }),
      lightOnDuration: duration,
      lightOffDuration: duration,
    })
    .optional(),
  image: text,
  bypassProxyNotification: flag,
  proxy: z.enum(['PROXY_UNSPECIFIED', 'ALLOW', 'DENY', 'IF_PRIORITY_LOWERED']).optional(),
});
const android = z.strictObject({
  collapseKey: text,
  priority: z.enum(['NORMAL', 'HIGH', 'normal', 'high']).optional(),
  ttl: text,
  restrictedPackageName: text,
  data: textMap,
  notification: androidNotification.optional(),
  fcmOptions: options,
  directBootOk: flag,
  bandwidthConstrainedOk: flag,
  restrictedSatelliteOk: flag,
});
const apns = z.strictObject({
  headers: textMap,
  payload: struct,
  fcmOptions: z.strictObject({ analyticsLabel: text, image: text }).optional(),
  liveActivityToken: text,
});
const webpush = z.strictObject({
  headers: textMap,
  data: textMap,
  notification: struct,
  fcmOptions: z.strictObject({ link: text, analyticsLabel: text }).optional(),
});

export const requestSchema = z.strictObject({
  validateOnly: flag,
  message: z.strictObject({
    name: text,
    data: textMap,
    notification: notification.optional(),
    android: android.optional(),
    webpush: webpush.optional(),
    apns: apns.optional(),
    fcmOptions: options,
    token: text,
    topic: text,
    condition: text,
  }),
});
export type FcmRequest = z.output<typeof requestSchema>;
