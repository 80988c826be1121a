import { isObject } from '../../src/domain/json.ts';
import type { Rule as Limit } from '../../src/domain/limits.ts';
import { type KeyObject, createPublicKey } from 'node:crypto';
import { createSecureServer, type IncomingHttpHeaders, type ServerHttp2Session } from 'node:http2';
import { jwtVerify } from 'jose';
import type { JournalEntry } from '../journal.ts';
import { SiteQuota, type Refuse } from '../loopback/answers.ts';
import { makeSigningKey } from '../loopback/certificates.ts';
import { Http2Session } from '../loopback/connections.ts';
import { http2Exchange, parseJsonObject, readBody } from '../loopback/exchange.ts';
import { LoopbackServer, type Http2Request, type LoopbackOptions, type ServerKind } from '../loopback/server.ts';
import { shownBy } from './declarative.ts';
import { webpushRefusal, webpushWording, type WebpushReason } from './reasons.ts';
import {
  decryptPush,
  browserKeys,
  sandboxSubscription,
  type SandboxSubscription,
  ENDPOINT_PATH,
} from './subscription.ts';

export interface WebpushServerOptions extends LoopbackOptions {
  readonly signer: VapidSigner;
  /** Streams a connection may have at once. */
  readonly maxStreams?: number | undefined;
}

/** What a push service must take (RFC 8030, section 7.2). */
const MAX_BODY_BYTES = 4_096;
/** As Google's front end has it. */
const MAX_STREAMS = 100;

/**
 * A push service and its browsers for the loopback: HTTP/2, VAPID, `POST /push/<name>`. It decrypts each push with the keys of its
 * subscription (`sandboxSubscription`), which only a browser can do, and refuses one that no browser could read.
 */
export class WebpushServer extends LoopbackServer {
  override readonly platform = 'webpush';
  protected override readonly acceptedStatus = 201;
  protected override readonly idleDebugData = 'session_timed_out';
  protected override readonly debugData = 'server_shutting_down';
  readonly #judge: VapidJudge;
  #messages = 0;
  #site: SiteQuota | undefined;

  constructor(options: WebpushServerOptions) {
    const server = createSecureServer({
      ...options.certificate,
      minVersion: 'TLSv1.2',
      settings: { maxConcurrentStreams: options.maxStreams ?? MAX_STREAMS },
    });
    super(server, options);
    this.#judge = new VapidJudge(options.signer, options.now);
  }

  /** The subscription of a pretended browser. @param name 1 to 256 of `A-Z a-z 0-9 _ -` */
  subscription(name: string): SandboxSubscription {
    return sandboxSubscription(this.url, name);
  }

  /** Every VAPID token is refused with `BadJwtToken`, until `restoreKey`. */
  revokeKey(): void {
    this.#judge.setRevoked(true);
  }

  restoreKey(): void {
    this.#judge.setRevoked(false);
  }

  /**
   * At most this many pushes of a website (its VAPID key) in any such window, as Chrome's push service has it for one that people
   * find disruptive; the rest is 429 with a `Retry-After`. Undefined ends it.
   */
  limitSite(rule: Limit | undefined): void {
    this.#site = rule && new SiteQuota(rule);
  }

  protected override openSession(session: ServerHttp2Session): Http2Session {
    return new Http2Session(session, { idleMs: this.timing.drawIdleMs(), debugData: this.idleDebugData });
  }

  protected override handleHttp2(session: Http2Session, request: Http2Request): void {
    void this.#handle(session, request);
  }

  async #handle(session: Http2Session, { stream, headers, at }: Http2Request): Promise<void> {
    const body = await readBody(stream, MAX_BODY_BYTES);
    if (!body) return;
    const push = readPush(headers, body);
    const received = { at, ...readHeaders(headers, at), ...push };
    const wording = webpushWording(`${this.url}/message/${++this.#messages}`);
    const exchange = http2Exchange(stream, session.peer, wording, (peer) => this.connections.reset(peer));
    const reason =
      routeFault(headers) ??
      (await this.#judge.fault(headers.authorization, `https://${headers[':authority'] ?? ''}`)) ??
      headerFault(headers) ??
      bodyFault(body, push);
    const overLimit = reason === undefined ? this.#overLimit(headers, at) : undefined;
    if (reason) this.refuse(received, exchange, webpushRefusal(reason));
    else if (overLimit) this.refuse(received, exchange, overLimit);
    else this.answer(received, exchange);
  }

  /** The refusal of a push over the limit of its website; undefined if there is room. */
  #overLimit({ authorization = '' }: IncomingHttpHeaders, at: number): Refuse | undefined {
    const key = authorization.slice(authorization.lastIndexOf('k=') + 2);
    if (this.#site === undefined || this.#site.take(key, at)) return undefined;
    const seconds = Math.max(1, Math.ceil(this.#site.roomInMs(key, at) / 1_000));
    return { ...webpushRefusal('TooManyPushes'), retryAfter: String(seconds) };
  }
}

type Shown = Pick<JournalEntry, 'tag' | 'title' | 'body' | 'data' | 'payload' | 'shownBy' | 'ignored'>;

function bodyFault(body: Buffer, { payload }: Shown): WebpushReason | undefined {
  if (body.length > MAX_BODY_BYTES) return 'BodyTooLarge';
  return payload === undefined ? 'BadEncryption' : undefined;
}

/** What the browser gets, and whether it shows that without a service worker; `payload` is undefined where the browser cannot read it. */
function readPush(headers: IncomingHttpHeaders, body: Buffer): Shown {
  const message = decrypted(subscriptionName(headers), body);
  const { title, body: text, tag, data } = message ?? {};
  return {
    tag: textOf(tag),
    title: textOf(title),
    body: textOf(text),
    data: isObject(data) ? (data as Record<string, string>) : {},
    payload: message,
    ...shownBy(message),
  };
}

function decrypted(name: string, body: Buffer): Record<string, unknown> | undefined {
  try {
    return parseJsonObject(decryptPush(body, browserKeys(name)));
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** The name of the subscription in a request's path; empty where there is none. */
function subscriptionName(headers: IncomingHttpHeaders): string {
  return ENDPOINT_PATH.exec(headers[':path'] ?? '')?.[1] ?? '';
}

type Rule = readonly [WebpushReason, (headers: IncomingHttpHeaders) => boolean];

/** Checked before the credentials; the first broken rule decides the answer. */
const ROUTE_RULES: readonly Rule[] = [
  ['UnknownSubscription', (headers) => subscriptionName(headers) === ''],
  ['BadMethod', (headers) => headers[':method'] !== 'POST'],
];

/** Checked after the credentials: RFC 8030, sections 5.2 to 5.4, and RFC 8291, section 4. */
const HEADER_RULES: readonly Rule[] = [
  ['BadTtl', ({ ttl }) => !/^\d{1,10}$/.test(headerText(ttl) ?? '')],
  [
    'BadUrgency',
    ({ urgency }) => urgency !== undefined && !/^(very-low|low|normal|high)$/.test(headerText(urgency) ?? ''),
  ],
  ['BadWebPushTopic', ({ topic }) => topic !== undefined && !/^[A-Za-z0-9_-]{1,32}$/.test(headerText(topic) ?? '')],
  ['BadEncryption', (headers) => headers['content-encoding'] !== 'aes128gcm'],
];

function routeFault(headers: IncomingHttpHeaders): WebpushReason | undefined {
  return ROUTE_RULES.find(([, isBroken]) => isBroken(headers))?.[0];
}

function headerFault(headers: IncomingHttpHeaders): WebpushReason | undefined {
  return HEADER_RULES.find(([, isBroken]) => isBroken(headers))?.[0];
}

/** The journal's fields from the headers, valid or not. @param at epoch milliseconds, from which `ttl` counts */
function readHeaders(
  headers: IncomingHttpHeaders,
  at: number,
): Pick<JournalEntry, 'token' | 'collapseId' | 'priority' | 'expiration'> {
  const seconds = Number(headerText(headers['ttl']) ?? NaN);
  return {
    token: subscriptionName(headers) === '' ? '' : `https://${headers[':authority'] ?? ''}${headers[':path'] ?? ''}`,
    collapseId: headerText(headers['topic']),
    priority: headerText(headers['urgency']),
    expiration: Number.isNaN(seconds) ? undefined : at / 1_000 + seconds,
  };
}

function headerText(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(', ') : header;
}

/** The key pair with which every subscription of the server was made. */
export interface VapidSigner {
  readonly publicKey: KeyObject;
  /** The uncompressed point as base64url. */
  readonly point: string;
}

/** RFC 8292, section 2: a token must not be valid for longer. */
const MAX_VALID_MS = 86_400_000;
/** How many checked tokens to remember; a sender needs one at a time. */
const MAX_REMEMBERED = 1_000;
const SUBJECT = /^(mailto:[^@\s]+@[^@\s]+|https:\/\/\S+)$/;

export interface CheckedToken {
  readonly expiresAt: number;
}

/** Checks `authorization: vapid t=<JWT>, k=<public key>` (RFC 8292): signature, `aud`, `exp`, `sub`, and whose key it is. */
export class VapidJudge {
  readonly #signer: VapidSigner;
  readonly #now: () => number;
  /** Remembers the checks, because verifying a signature costs more than the rest of a request. */
  readonly #checked = new Map<string, Promise<CheckedToken | undefined>>();
  #isRevoked = false;

  constructor(signer: VapidSigner, now: () => number) {
    this.#signer = signer;
    this.#now = now;
  }

  /** From now on every token is refused, or judged again. */
  setRevoked(isRevoked: boolean): void {
    this.#isRevoked = isRevoked;
  }

  /** What is wrong with the header; undefined if it is right. @param audience the server's origin */
  async fault(authorization: string | undefined, audience: string): Promise<WebpushReason | undefined> {
    if (authorization === undefined) return 'MissingAuthorization';
    const found = /^vapid t=([\w.-]+), ?k=([\w-]+)$/.exec(authorization);
    const [, token = '', key = ''] = found ?? [];
    if (found === null || this.#isRevoked) return 'BadJwtToken';
    if (key !== this.#signer.point) return 'VapidPkHashMismatch';
    const checked = await this.#check(token, audience);
    const nowMs = this.#now();
    const isInTime = checked !== undefined && checked.expiresAt > nowMs && checked.expiresAt <= nowMs + MAX_VALID_MS;
    return isInTime ? undefined : 'BadJwtToken';
  }

  #check(token: string, audience: string): Promise<CheckedToken | undefined> {
    const name = `${audience} ${token}`;
    const known = this.#checked.get(name);
    if (known) return known;
    const [oldest] = this.#checked.keys();
    if (oldest !== undefined && this.#checked.size >= MAX_REMEMBERED) this.#checked.delete(oldest);
    const checking = this.#verify(token, audience);
    this.#checked.set(name, checking);
    return checking;
  }

  async #verify(token: string, audience: string): Promise<CheckedToken | undefined> {
    try {
      // `exp` is judged above, since a remembered token may have expired since.
      const { payload } = await jwtVerify(token, this.#signer.publicKey, {
        algorithms: ['ES256'],
        audience,
        currentDate: new Date(0),
      });
      if (payload.exp === undefined || !SUBJECT.test(payload.sub ?? '')) return undefined;
      return { expiresAt: payload.exp * 1_000 };
    } catch {
      return undefined;
    }
  }
}

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
