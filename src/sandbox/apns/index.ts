import { createPublicKey } from 'node:crypto';
import { makeSigningKey } from '../keys/pem.ts';
import type { ServerKind } from '../server-kind.ts';
import { ApnsServer } from './server.ts';

const IDENTITY = { keyId: 'SANDBOXKEY', teamId: 'SANDBOXTM1', topic: 'dev.pushpacer.sandbox' } as const;

export const APNS_SERVER: ServerKind<ApnsServer> = {
  host: 'api.push.apple.com',
  key: { file: 'apns-key.p8', make: makeSigningKey },
  create: ({ apnsTokenUpdateMs: tokenUpdateMs, ...options }, key) =>
    new ApnsServer({
      ...options,
      signer: { publicKey: createPublicKey(key), ...IDENTITY },
      topic: IDENTITY.topic,
      tokenUpdateMs,
    }),
  urlVariable: 'APNS_ENDPOINT',
  env: ({ key, ca }) => ({
    APNS_KEY_FILE: key,
    APNS_KEY_ID: IDENTITY.keyId,
    APNS_TEAM_ID: IDENTITY.teamId,
    APNS_TOPIC: IDENTITY.topic,
    APNS_CA_FILE: ca,
  }),
};
