import { createPrivateKey, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, type ClientHttp2Session, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { SignJWT } from 'jose';
import { onTestFinished } from 'vitest';
import type { Sandbox } from '../../sandbox/sandbox.ts';

/** What a request changes of a good one: an `undefined` header is left out, and one with a list is sent more than once. */
export interface Change {
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer;
}

export interface RawReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A raw HTTP/2 client: what it sends is what the test says. */
export interface RawClient {
  readonly session: ClientHttp2Session;
  /** Sends the good request with this change. */
  ask: (change?: Change) => Promise<RawReply>;
}

/** Connects, and closes when the test ends. @param good the request from which the others differ */
export async function connectRaw(sandbox: Sandbox, url: string, good: Required<Change>): Promise<RawClient> {
  const session = connect(url, { ca: await readFile(sandbox.caFile) });
  session.on('error', () => undefined); // the requests on it report it
  onTestFinished(() => session.destroy());
  await once(session, 'remoteSettings');

  function ask({ headers = {}, body = good.body }: Change = {}): Promise<RawReply> {
    const stream = session.request({ ':method': 'POST', ...good.headers, ...headers }, { endStream: false });
    return new Promise((resolve, reject) => {
      let received: IncomingHttpHeaders = {};
      let text = '';
      stream.setEncoding('utf8').on('data', (part: string) => (text += part));
      stream.on('response', (all) => (received = all));
      stream.on('error', reject);
      stream.on('close', () => resolve({ status: Number(received[':status']), headers: received, body: text }));
      stream.end(body);
    });
  }
  return { session, ask };
}

/** A client of APNs with a good alert. @param jwt the provider token; one that was just made where left out */
export async function connectApns(sandbox: Sandbox, jwt?: string): Promise<RawClient> {
  return connectRaw(sandbox, sandbox.apns.url, {
    headers: {
      ':path': '/3/device/ab01',
      authorization: `bearer ${jwt ?? (await signJwt(sandbox))}`,
      'apns-topic': sandbox.env()['APNS_TOPIC'],
      'apns-push-type': 'alert',
    },
    body: '{"aps":{"alert":"Forms are due"}}',
  });
}

/** A client of FCM with a good message. */
export function connectFcm(sandbox: Sandbox): Promise<RawClient> {
  return connectRaw(sandbox, sandbox.fcm.url, {
    headers: {
      ':path': `/v1/projects/${sandbox.env()['FCM_PROJECT_ID'] ?? ''}/messages:send`,
      authorization: 'Bearer owner',
      'content-type': 'application/json',
    },
    body: messageBody({}),
  });
}

/** The body of a message to the token `ab` with these fields. */
export function messageBody(fields: object): string {
  return JSON.stringify({ message: { token: 'ab', ...fields } });
}

export interface JwtOptions {
  /** Epoch milliseconds; now where left out, and null for no claim of it. */
  readonly issuedAt?: number | null;
  readonly kid?: string;
  readonly iss?: string;
  readonly key?: KeyObject;
  /** Makes a token that differs from others of the same second. */
  readonly salt?: string;
}

/** A provider token as APNs wants it, but for what the options change. */
export async function signJwt(sandbox: Sandbox, options: JwtOptions = {}): Promise<string> {
  const env = sandbox.env();
  const { issuedAt = Date.now(), kid = env['APNS_KEY_ID'] ?? '', iss = env['APNS_TEAM_ID'] ?? '', salt } = options;
  const key = options.key ?? createPrivateKey(await readFile(env['APNS_KEY_FILE'] ?? ''));
  const jwt = new SignJWT(salt === undefined ? {} : { salt }).setProtectedHeader({ alg: 'ES256', kid }).setIssuer(iss);
  return (issuedAt === null ? jwt : jwt.setIssuedAt(Math.floor(issuedAt / 1_000))).sign(key);
}

/** The reason in a refusal of APNs. */
export function reasonIn({ body }: RawReply): unknown {
  return body === '' ? undefined : (JSON.parse(body) as { reason?: unknown }).reason;
}
