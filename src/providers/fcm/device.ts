import { z } from 'zod';
import { deviceApp, type TokenKind } from '../device-kind.ts';
import { FCM_MAX_PAYLOAD_BYTES, fcmMessage, SILENT_CHANNEL } from './message.ts';
import { FCM_RESERVED_DATA_KEYS } from './fields.ts';
import { fcmPayloadBytes } from './size.ts';

export const fcmDevice: TokenKind<'fcm'> = {
  schema: z.strictObject({
    platform: z.literal('fcm').describe('Firebase Cloud Messaging.'),
    token: z
      .string()
      .regex(/^[\x21-\x7e]{1,4096}$/, { error: 'an FCM registration token: 1 to 4096 visible ASCII characters' })
      .describe('The registration token that the app got from Firebase. 1 to 4,096 visible ASCII characters.'),
    app: deviceApp,
  }),
  tokenOf: ({ token }) => token,
  reservedDataKeys: FCM_RESERVED_DATA_KEYS,
  payload: {
    maxBytes: FCM_MAX_PAYLOAD_BYTES,
    bytesOf: (notification, silent) => fcmPayloadBytes(fcmMessage(notification, { ...MEASURED, silent })),
  },
};

/** As long as a real push id. The token and the time that is left do not count. */
const MEASURED = { token: '', pushId: '0'.repeat(36), silentChannelId: SILENT_CHANNEL, nowMs: 0 };
