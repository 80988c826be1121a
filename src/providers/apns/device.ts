import { z } from 'zod';
import { deviceApp, type TokenKind } from '../device-kind.ts';
import { APNS_MAX_PAYLOAD_BYTES, apnsPayload } from './payload.ts';

export const apnsDevice: TokenKind<'apns'> = {
  schema: z.strictObject({
    platform: z.literal('apns').describe("Apple's Push Notification service."),
    token: z
      .string()
      .regex(/^[0-9a-fA-F]{2,512}$/, { error: 'an APNs device token: 2 to 512 hexadecimal digits' })
      .describe('The device token that the app got from Apple. 2 to 512 hexadecimal digits.'),
    app: deviceApp,
  }),
  tokenOf: ({ token }) => token,
  // `fcm_options` is where a service extension finds the image.
  reservedDataKeys: ['aps', 'fcm_options'],
  takesLiveActivities: true,
  payload: {
    maxBytes: APNS_MAX_PAYLOAD_BYTES,
    bytesOf: (notification, silent) => Buffer.byteLength(JSON.stringify(apnsPayload(notification, silent, Date.now()))),
  },
};
