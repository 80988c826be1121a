import { z } from 'zod';
import type { TokenKind } from '../device-kind.ts';

export const fcmDevice: TokenKind<'fcm'> = {
  schema: z.strictObject({
    platform: z.literal('fcm').describe('Firebase Cloud Messaging.'),
    token: z
      .string()
      .regex(/^[\x21-\x7e]{1,4096}$/, { error: 'an FCM registration token: 1 to 4096 visible ASCII characters' })
      .describe('The registration token that the app got from Firebase. 1 to 4,096 visible ASCII characters.'),
  }),
  tokenOf: ({ token }) => token,
  // firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
  reservedDataKeys: ['from', 'message_type', 'google*', 'gcm*'],
};
