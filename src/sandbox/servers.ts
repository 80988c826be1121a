import { createPublicKey } from 'node:crypto';
import type { Platform } from '../domain/notification.ts';
import { ApnsServer } from './apns/server.ts';
import { FcmServer } from './fcm/server.ts';
import { WebpushServer } from './webpush/server.ts';
import type { KeyFiles, SandboxKeys } from './keys/keys.ts';
import type { LoopbackOptions, LoopbackServer } from './loopback/server.ts';

/** What can be set for one of the servers. */
export interface ServerOptions {
  /** Streams that an APNs connection may have at once after its first accepted token. Default: 1,000. */
  readonly apnsMaxStreams?: number;
  /** Least time between two provider tokens of one APNs connection, in milliseconds. Default: 20 minutes. */
  readonly apnsTokenUpdateMs?: number;
  /** Streams that an FCM connection may have at once over HTTP/2. Default: 100. */
  readonly fcmMaxStreams?: number;
  /** Streams that a web push connection may have at once. Default: 100. */
  readonly webpushMaxStreams?: number;
}

/** How the sandbox runs the loopback server of one provider. */
interface ServerKind<Server extends LoopbackServer> {
  /** The provider's real host name. The certificate has it too, for clients that only use another address. */
  readonly host: string;
  readonly create: (options: LoopbackOptions & ServerOptions, keys: SandboxKeys) => Server;
  /** The variables that point a worker at the server. */
  readonly env: (url: string, files: KeyFiles) => Readonly<Record<string, string>>;
}

const APNS_IDENTITY = { keyId: 'SANDBOXKEY', teamId: 'SANDBOXTM1', topic: 'dev.pushpacer.sandbox' } as const;
export const PROJECT_ID = 'pushpacer-sandbox';

const apns: ServerKind<ApnsServer> = {
  host: 'api.push.apple.com',
  create: ({ apnsMaxStreams: maxStreams, apnsTokenUpdateMs: tokenUpdateMs, ...options }, keys) =>
    new ApnsServer({
      ...options,
      signer: { publicKey: createPublicKey(keys.apnsKey), ...APNS_IDENTITY },
      topic: APNS_IDENTITY.topic,
      maxStreams,
      tokenUpdateMs,
    }),
  env: (url, files) => ({
    APNS_ENDPOINT: url,
    APNS_KEY_FILE: files.apnsKey,
    APNS_KEY_ID: APNS_IDENTITY.keyId,
    APNS_TEAM_ID: APNS_IDENTITY.teamId,
    APNS_TOPIC: APNS_IDENTITY.topic,
    APNS_CA_FILE: files.ca,
  }),
};

const fcm: ServerKind<FcmServer> = {
  host: 'fcm.googleapis.com',
  create: ({ fcmMaxStreams: maxStreams, ...options }) =>
    new FcmServer({ ...options, projectId: PROJECT_ID, maxStreams }),
  env: (url, files) => ({
    FCM_ENDPOINT: url,
    FCM_CA_FILE: files.ca,
    FCM_PROJECT_ID: PROJECT_ID,
    GOOGLE_APPLICATION_CREDENTIALS: files.serviceAccount,
  }),
};

const webpush: ServerKind<WebpushServer> = {
  host: 'updates.push.services.mozilla.com',
  create: ({ webpushMaxStreams: maxStreams, ...options }, { vapidKey }) => {
    const publicKey = createPublicKey(vapidKey);
    const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
    const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
    return new WebpushServer({ ...options, signer: { publicKey, point: point.toString('base64url') }, maxStreams });
  },
  env: (url, files) => ({
    WEBPUSH_ORIGINS: url,
    WEBPUSH_VAPID_PRIVATE_KEY_FILE: files.vapidKey,
    WEBPUSH_SUBJECT: 'mailto:sandbox@pushpacer.example',
    WEBPUSH_CA_FILE: files.ca,
  }),
};

/** One for every provider: a platform without a server does not compile. */
export const SERVER_KINDS = { apns, fcm, webpush } satisfies Readonly<Record<Platform, unknown>>;

/** The server of each platform. */
export type Servers = { readonly [P in Platform]: ReturnType<(typeof SERVER_KINDS)[P]['create']> };
