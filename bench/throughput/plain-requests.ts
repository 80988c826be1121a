import { createPrivateKey, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { OutgoingHttpHeaders } from 'node:http2';
import { SignJWT } from 'jose';
import { tokenOf } from '../../src/domain/device.ts';
import type { NotificationInput } from '../../src/domain/notification.ts';
import type { BenchPlatform } from './case.ts';

/** One request: what pushpacer sends for the same notification, without its checks. */
interface PlainRequest {
  readonly headers: OutgoingHttpHeaders;
  readonly body: string;
}

/** The variables that also point pushpacer at the providers. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** Where one platform is, and how its requests look. */
export interface PlainTarget {
  readonly endpoint: string;
  /** PEM of the authority that signed the server's certificate. */
  readonly ca: string;
  readonly requestOf: (notification: NotificationInput) => PlainRequest;
}

export function plainTarget(platform: BenchPlatform, env: Variables): Promise<PlainTarget> {
  return platform === 'apns' ? apns(env) : Promise.resolve(fcm(env));
}

/** developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns */
async function apns(env: Variables): Promise<PlainTarget> {
  const key = createPrivateKey(readFileSync(need(env, 'APNS_KEY_FILE')));
  const jwt = await new SignJWT()
    .setProtectedHeader({ alg: 'ES256', kid: need(env, 'APNS_KEY_ID') })
    .setIssuer(need(env, 'APNS_TEAM_ID'))
    .setIssuedAt()
    .sign(key);
  const topic = need(env, 'APNS_TOPIC');
  return {
    endpoint: need(env, 'APNS_ENDPOINT'),
    ca: readFileSync(need(env, 'APNS_CA_FILE'), 'utf8'),
    requestOf({ devices, alert }) {
      const id = randomUUID();
      const headers = {
        ':method': 'POST',
        ':path': `/3/device/${devices.map(tokenOf).join()}`,
        authorization: `bearer ${jwt}`,
        'apns-topic': topic,
        'apns-push-type': 'alert',
        'apns-priority': '10',
        'apns-id': id,
        'apns-collapse-id': id,
      };
      return { headers, body: JSON.stringify({ aps: { alert } }) };
    },
  };
}

/** firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send */
function fcm(env: Variables): PlainTarget {
  const path = `/v1/projects/${need(env, 'FCM_PROJECT_ID')}/messages:send`;
  return {
    endpoint: need(env, 'FCM_ENDPOINT'),
    ca: readFileSync(need(env, 'FCM_CA_FILE'), 'utf8'),
    requestOf({ devices, alert }) {
      const headers = {
        ':method': 'POST',
        ':path': path,
        authorization: 'Bearer owner',
        'content-type': 'application/json',
      };
      const android = { priority: 'normal', notification: { tag: randomUUID() } };
      const message = { token: devices.map(tokenOf).join(), notification: alert, android };
      return { headers, body: JSON.stringify({ message }) };
    },
  };
}

export function need(env: Variables, name: string): string {
  const value = env[name];
  if (value === undefined) throw new TypeError(`${name}: expected a value, found none`);
  return value;
}
