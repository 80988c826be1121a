import { createECDH, createHash, createPrivateKey, type KeyObject } from 'node:crypto';
import './no-keylog.ts'; // must be imported before http_ece
import { encrypt } from 'http_ece';
import { SignJWT } from 'jose';
import { InputError } from '../../domain/faults.ts';
import type { WebpushDevice } from '../../notification/notification.ts';
import { createCredential, readP256Key, type Credential } from '../credential.ts';
import type { Provider, Reach, Reply, Reserved, Prepared, Push } from '../provider.ts';
import { refusedAsTooLarge, signFailure, transportReply } from '../replies.ts';
import { createNegotiatedSender } from '../sender/http1-sender.ts';
import { parseEndpoint, trustBeside } from '../sender/result.ts';
import { createHttp2Provider, type SenderTuning } from '../sender/sender.ts';
import { readWebpushAnswer } from './answers.ts';
import { createOrigins, createAllowed } from './origins.ts';
import { WEBPUSH_MAX_MESSAGE_BYTES, webpushMessage } from '../../notification/devices/webpush/payload.ts';

export interface WebpushOptions extends SenderTuning {
  /** The VAPID private key: 43 characters of base64url, or PEM. */
  readonly vapidKey: string;
  /** The contact for the push services: a `mailto:` or `https:` URL. */
  readonly subject: string;
  /** Push services to allow in addition to the known ones: `https://push.example.com`. */
  readonly origins: readonly string[];
  /** One more CA to trust, in addition to the system's, as PEM. */
  readonly ca?: string | undefined;
  /** The most push services with open connections. Default: 64. */
  readonly maxOrigins?: number | undefined;
  /** If nothing was sent to a push service for so long, its connections are closed. Default: 300,000 ms. */
  readonly idleMs?: number | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

/**
 * Web push: `POST` to the endpoint of a subscription, with a VAPID token for its push service. Each push service has its own
 * connections and its own token.
 *
 * @throws InputError if the key is not usable; the error does not show it.
 */
export function createWebpushProvider(options: WebpushOptions): Provider {
  const {
    vapidKey,
    subject,
    origins: more,
    ca,
    maxOrigins = 64,
    idleMs = 300_000,
    now = Date.now,
    ...tuning
  } = options;
  const key = usable(vapidKey);
  const secureContext = trustBeside(ca);
  const allowed = createAllowed(more);
  const isAllowed = (origin: string): boolean => allowed(origin) !== undefined;
  let isClosed = false;

  function create(origin: string): Provider {
    const endpoint = parseEndpoint(origin, 'webpush.endpoint');
    return createHttp2Provider({
      platform: 'webpush',
      credential: createVapidCredential(origin, key, subject, now),
      sender: createNegotiatedSender({ ...tuning, endpoint, secureContext }),
      prepare,
      readAnswer: (answer, push) => readWebpushAnswer(answer, push, now()),
      isExpired: () => false, // the token is renewed an hour before its end
    });
  }

  /** If a host below a known one does not exist, it was made up for this subscription, so the failure counts as an attempt. */
  function ofOrigin(reply: Reply, origin: string): Reply {
    if (reply.code !== 'host-not-found' || allowed(origin) !== 'below') return withHost(reply, origin);
    const { meaning, code, alerted, detail } = reply;
    return withHost({ meaning, code, alerted, ...(detail !== undefined && { detail }) }, origin);
  }

  function isMadeUp({ failure }: Reach, origin: string): boolean {
    return failure?.cause === 'ENOTFOUND' && allowed(origin) === 'below';
  }

  const prepare: Provider['prepare'] = (push) => encodeWebpush(push, { isAllowed, nowMs: now() });
  const origins = createOrigins(create, maxOrigins, idleMs);

  return {
    platform: 'webpush',
    prepare,
    reserve(encoded) {
      if (isClosed) return { kind: 'none', reply: transportReply('closed') };
      const { origin = '' } = encoded;
      const reserved = origins.get(origin)?.reserve(encoded) ?? { kind: 'none', reply: transportReply('no-stream') };
      const checked = (found: Reserved): Reserved =>
        found.kind === 'none' ? { kind: 'none', reply: ofOrigin(found.reply, origin) } : found;
      return reserved instanceof Promise ? reserved.then(checked) : checked(reserved);
    },
    async send(encoded, sendOptions = {}) {
      const { origin = '' } = encoded;
      const send = (provider: Provider): Promise<Reply> => provider.send(encoded, sendOptions);
      const sent = isClosed ? undefined : origins.use(origin, send);
      if (sent !== undefined) return ofOrigin(await sent, origin);
      sendOptions.permit?.release();
      return transportReply(isClosed ? 'closed' : 'no-stream');
    },
    connect: () => Promise.resolve(), // only the devices say which push services there are
    reach: () =>
      origins
        .all()
        .flatMap(([origin, provider]) =>
          provider
            .reach()
            .flatMap((found) => (isMadeUp(found, origin) ? [] : { ...found, server: new URL(origin).host })),
        ),
    abort: () => origins.abort(),
    close() {
      isClosed = true;
      return origins.close();
    },
  };
}

function usable(text: string): VapidKey {
  const key = readVapidKey(text);
  if (key !== undefined) return key;
  const expected = 'a private key on P-256: 43 characters of base64url, or PEM';
  throw new InputError('web push', [
    { path: 'webpush.vapidKey', expected, found: `a string of ${text.length} characters` },
  ]);
}

/** Adds the name of the push service to a reply that refuses or fails: an operator must know it, and the host is no secret. */
function withHost(reply: Reply, origin: string): Reply {
  const { meaning, code, suspect, unsent, detail } = reply;
  const isOwnFault = code === 'aborted' || (unsent === true && suspect === undefined);
  if (meaning === 'accepted' || isOwnFault) return reply;
  const { host } = new URL(origin);
  return { ...reply, detail: detail === undefined ? host : `${host}: ${detail}` };
}

/** Four weeks, the longest that Google keeps a push. Others keep pushes for less time, as RFC 8030 (section 5.2) allows. */
const MAX_TTL_SECONDS = 2_419_200;

/** A push as a request to its push service (RFC 8030), encrypted for the browser (RFC 8291). `nowMs`: epoch milliseconds. */
export function encodeWebpush(
  push: Push,
  { isAllowed, nowMs }: { readonly isAllowed: (origin: string) => boolean; readonly nowMs: number },
): Prepared {
  const device = push.device as WebpushDevice; // the platform says so
  const { origin, pathname, search } = new URL(device.endpoint);
  if (!isAllowed(origin)) {
    return refused('origin-not-allowed', `${origin} is no known push service; WEBPUSH_ORIGINS can allow it`);
  }
  const message = Buffer.from(JSON.stringify(webpushMessage(push.notification, push)));
  const tooLarge = refusedAsTooLarge('payload-too-large', message.length, WEBPUSH_MAX_MESSAGE_BYTES);
  if (tooLarge !== undefined) return tooLarge;
  const body = encrypted(message, device.keys);
  if (body === undefined) return refused('bad-keys', 'keys.p256dh: expected a point on P-256, found another one');
  return { kind: 'ready', encoded: { push, origin, path: pathname + search, headers: headersOf(push, nowMs), body } };
}

/** A subscription that is refused here, before any request is sent. */
function refused(code: 'origin-not-allowed' | 'bad-keys', detail: string): Prepared {
  return { kind: 'refused', reply: { meaning: 'bad-token', alerted: 'no', code, detail } };
}

/** Encrypts a message, with a new key pair for each. Undefined if the browser's key is no point on the curve. */
function encrypted(message: Buffer, { p256dh, auth }: WebpushDevice['keys']): Buffer | undefined {
  const privateKey = createECDH('prime256v1');
  privateKey.generateKeys();
  try {
    return encrypt(message, { version: 'aes128gcm', privateKey, dh: p256dh, authSecret: auth });
  } catch {
    return undefined;
  }
}

/**
 * - `ttl`: the seconds left until `expiresAt`, at least 1. With 0 a push service would try once and store nothing, and
 *   Microsoft refuses 0 without a header of its own.
 * - `urgency` (RFC 8030, section 5.3): the notification's priority; `low` for a silent one.
 * - `topic` (section 5.4): only if the producer gave a collapse id. A push that waits for its browser is replaced by a later
 *   push with the same topic.
 */
function headersOf({ notification, silent }: Push, nowMs: number): Record<string, string | number> {
  const { collapseId, expiresAt, priority } = notification;
  const leftSeconds = expiresAt === undefined ? Infinity : Math.floor((expiresAt - nowMs) / 1_000);
  return {
    'content-type': 'application/octet-stream',
    'content-encoding': 'aes128gcm',
    ttl: Math.max(1, Math.min(leftSeconds, MAX_TTL_SECONDS)),
    urgency: silent ? 'low' : priority,
    ...(collapseId !== undefined && { topic: topicOf(collapseId) }),
  };
}

/** 32 characters of base64url, from a hash of the collapse id, so that no push service can read the collapse id. */
export function topicOf(collapseId: string): string {
  return createHash('sha256').update(collapseId).digest('base64url').slice(0, 32);
}

/** The key pair that names this sender to every push service (RFC 8292). Browsers subscribe with its public half. */
export interface VapidKey {
  readonly privateKey: KeyObject;
  /** The uncompressed point as base64url: what browsers call `applicationServerKey`. */
  readonly publicKey: string;
}

/** A token is valid for at most 24 hours (RFC 8292, section 2). Half of that leaves room for a clock that is wrong. */
const LIFETIME_MS = 12 * 3_600_000;
const RENEW_BELOW_MS = 3_600_000;
const LEAST_RENEWAL_MS = 60_000;

/** A private key on P-256: 32 bytes as base64url, as generators for web push print it, or PEM. Undefined for anything else. */
export function readVapidKey(text: string): VapidKey | undefined {
  const written = text.trim();
  return written.startsWith('-----BEGIN') ? fromPem(written) : fromBase64url(written);
}

function fromPem(pem: string): VapidKey | undefined {
  const privateKey = readP256Key(pem);
  if (privateKey === undefined) return undefined;
  const { x = '', y = '' } = privateKey.export({ format: 'jwk' });
  const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
  return { privateKey, publicKey: point.toString('base64url') };
}

function fromBase64url(text: string): VapidKey | undefined {
  if (!/^[A-Za-z0-9_-]{43}=?$/.test(text)) return undefined;
  const pair = createECDH('prime256v1');
  try {
    pair.setPrivateKey(text, 'base64url');
  } catch {
    return undefined; // the key is 0, or beyond the order of the curve
  }
  const point = pair.getPublicKey();
  const [x, y] = [point.subarray(1, 33).toString('base64url'), point.subarray(33).toString('base64url')];
  const privateKey = createPrivateKey({ format: 'jwk', key: { kty: 'EC', crv: 'P-256', d: text.slice(0, 43), x, y } });
  return { privateKey, publicKey: point.toString('base64url') };
}

/**
 * The `authorization` header for one push service: a JWT for its origin, signed locally (RFC 8292, sections 2 and 3).
 *
 * @param subject whom the push service may ask about these pushes: a `mailto:` or `https:` URL
 * @param now epoch milliseconds
 */
export function createVapidCredential(
  origin: string,
  { privateKey, publicKey }: VapidKey,
  subject: string,
  now: () => number,
): Credential {
  return createCredential({
    now,
    renewBelowMs: RENEW_BELOW_MS,
    leastRenewalMs: LEAST_RENEWAL_MS,
    async signIn() {
      const jwt = new SignJWT({ aud: origin, exp: Math.floor((now() + LIFETIME_MS) / 1_000), sub: subject });
      const signed = await jwt.setProtectedHeader({ typ: 'JWT', alg: 'ES256' }).sign(privateKey);
      return { authorization: `vapid t=${signed}, k=${publicKey}`, lifetimeMs: LIFETIME_MS };
    },
    failureReply: signFailure,
  });
}
