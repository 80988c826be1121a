import { z } from 'zod';
import type { TokenKind } from '../device-kind.ts';

export const apnsDevice: TokenKind<'apns'> = {
  schema: z.strictObject({
    platform: z.literal('apns').describe("Apple's Push Notification service."),
    token: z
      .string()
      .regex(/^[0-9a-fA-F]{2,512}$/, { error: 'an APNs device token: 2 to 512 hexadecimal digits' })
      .describe('The device token that the app got from Apple. 2 to 512 hexadecimal digits.'),
  }),
  tokenOf: ({ token }) => token,
  reservedDataKeys: ['aps'],
};
