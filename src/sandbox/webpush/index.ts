import { createPublicKey } from 'node:crypto';
import { makeSigningKey } from '../keys/pem.ts';
import type { ServerKind } from '../server-kind.ts';
import { WebpushServer } from './server.ts';

export const WEBPUSH_SERVER: ServerKind<WebpushServer> = {
  host: 'updates.push.services.mozilla.com',
  key: { file: 'vapid-key.pem', make: makeSigningKey },
  create: (options, key) => {
    const publicKey = createPublicKey(key);
    const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
    const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
    return new WebpushServer({ ...options, signer: { publicKey, point: point.toString('base64url') } });
  },
  urlVariable: 'WEBPUSH_ORIGINS',
  env: ({ key, ca }) => ({
    WEBPUSH_VAPID_PRIVATE_KEY_FILE: key,
    WEBPUSH_SUBJECT: 'mailto:sandbox@pushpacer.example',
    WEBPUSH_CA_FILE: ca,
  }),
};
