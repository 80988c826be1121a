import { z } from 'zod';
import { deviceApp, type DeviceKind } from '../device-kind.ts';
import { WEBPUSH_MAX_MESSAGE_BYTES, webpushMessage } from './message.ts';

const endpoint = z
  .string()
  .regex(/^https:\/\/[\x21-\x7e]{1,2040}$/, {
    error: 'an https:// URL of at most 2048 visible ASCII characters',
    abort: true,
  })
  .refine(isPlainUrl, { error: 'a URL without a user, a password and a fragment' })
  .describe(
    'The URL of the subscription at its push service, 9 to 2,048 characters. It is secret: whoever knows it can try to send.',
  );

const keys = z
  .strictObject({
    p256dh: z
      .string()
      .regex(/^B[A-P][A-Za-z0-9_-]{85}$/, {
        error: 'a public key on P-256: 87 characters of base64url, beginning with B',
      })
      .describe("The browser's public key: a point on P-256, uncompressed, as 87 characters of base64url."),
    auth: z
      .string()
      .regex(/^[A-Za-z0-9_-]{22}$/, { error: 'a secret of 16 bytes: 22 characters of base64url' })
      .describe('A secret of the browser: 16 bytes, as 22 characters of base64url.'),
  })
  .describe('What the push is encrypted with, so that only this browser can read it.');

const expirationTime = z
  .number()
  .nullable()
  .optional()
  .describe('Browsers have this field in the subscription, mostly as `null`. It may stay, and nothing reads it.');

/** A browser's PushSubscription as its `toJSON()` gives it, with the platform beside it. */
export const webpushDevice: DeviceKind<
  'webpush',
  { endpoint: typeof endpoint; keys: typeof keys; expirationTime: typeof expirationTime }
> = {
  schema: z.strictObject({
    platform: z.literal('webpush').describe('Web push: a browser, or a web app on the home screen.'),
    endpoint,
    keys,
    expirationTime,
    app: deviceApp,
  }),
  tokenOf: (device) => device.endpoint,
  hostOf: (device) => new URL(device.endpoint).host,
  reservedDataKeys: [],
  payload: {
    maxBytes: WEBPUSH_MAX_MESSAGE_BYTES,
    bytesOf: (notification, silent) =>
      Buffer.byteLength(JSON.stringify(webpushMessage(notification, { ...MEASURED, silent }))),
  },
  mustShow: true, // browsers take the permission away from a website that shows nothing
};

function isPlainUrl(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && url.username === '' && url.password === '' && !text.includes('#');
}

/** As long as a real push id. */
const MEASURED = { pushId: '0'.repeat(36) };
