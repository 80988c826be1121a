import { createPrivateKey, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, type ClientHttp2Session, type ClientHttp2Stream, type IncomingHttpHeaders } from 'node:http2';
import { SignJWT } from 'jose';
import { onTestFinished } from 'vitest';
import type { Sandbox } from '../../sandbox/sandbox.ts';

/** `null` leaves a header out that a request has by itself; an array sends it more than once. */
type Headers = Readonly<Record<string, string | readonly string[] | null>>;

export interface ApnsRequest {
  readonly token?: string;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Headers;
  readonly body?: string | Buffer;
}

export interface ApnsReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A raw HTTP/2 client: what it sends is what the test says. */
export interface ApnsClient {
  readonly session: ClientHttp2Session;
  /** Rejects where the stream ends without an answer. */
  post(request?: ApnsRequest): Promise<ApnsReply>;
  /** Sends a request's headers, and leaves its stream open for the body. */
  open(request?: ApnsRequest): ClientHttp2Stream;
}

export interface ApnsClientOptions {
  /** The provider token; a good one that was just made where left out. */
  readonly jwt?: string;
}

export const PAYLOAD = JSON.stringify({ aps: { alert: { title: 'Room 12', body: 'Forms are due' } }, threadId: '77' });

/** Connects, and closes when the test ends. */
export async function connectApns(sandbox: Sandbox, options: ApnsClientOptions = {}): Promise<ApnsClient> {
  const jwt = options.jwt ?? (await signJwt(sandbox));
  const session = connect(sandbox.apns.url, { ca: await readFile(sandbox.caFile) });
  session.on('error', () => undefined); // the requests on it report it
  onTestFinished(() => session.destroy());
  await once(session, 'remoteSettings');

  const open = ({ token = 'ab01', path, method = 'POST', headers = {} }: ApnsRequest = {}) => {
    const all = {
      ':method': method,
      ':path': path ?? `/3/device/${token}`,
      authorization: `bearer ${jwt}`,
      'apns-topic': sandbox.env()['APNS_TOPIC'] ?? null,
      'apns-push-type': 'alert',
      ...headers,
    };
    const sent = Object.entries(all).filter(([, value]) => value !== null) as [string, string][];
    return session.request(Object.fromEntries(sent));
  };
  return { session, open, post: (request) => answerOn(open(request).end(request?.body ?? PAYLOAD)) };
}

export function answerOn(stream: ClientHttp2Stream): Promise<ApnsReply> {
  return new Promise((resolve, reject) => {
    let headers: IncomingHttpHeaders | undefined;
    let body = '';
    stream.setEncoding('utf8').on('data', (text: string) => (body += text));
    stream.on('response', (received) => (headers = received));
    stream.on('error', reject);
    stream.on('close', () => {
      if (headers) resolve({ status: Number(headers[':status']), headers, body });
      else reject(new Error('the stream was closed without an answer'));
    });
  });
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

/** `{ status, reason }` of an answer, for a look at both at once. */
export function verdict({ status, body }: ApnsReply): { status: number; reason?: unknown } {
  const parsed = body === '' ? {} : (JSON.parse(body) as { reason?: unknown });
  return 'reason' in parsed ? { status, reason: parsed.reason } : { status };
}
