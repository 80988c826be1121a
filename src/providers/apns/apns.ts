import { createPrivateKey, createPublicKey, hash, type KeyObject } from 'node:crypto';
import { Notification as ApnsNotification } from 'apn';
import { SignJWT } from 'jose';
import { tokenOf } from '../../domain/device.ts';
import { InputError } from '../../domain/faults.ts';
import { createCredential, type Credential } from '../credential.ts';
import type { Provider, Prepared, Push } from '../provider.ts';
import { parseEndpoint, trustBeside } from '../sender/result.ts';
import { createHttp2Provider, createSender, type SenderOptions } from '../sender/sender.ts';
import { readApnsAnswer, APNS_REPLIES } from './answers.ts';
import { apnsDelivery, liveActivityTopic, APNS_MAX_PAYLOAD_BYTES, apnsPayload } from './payload.ts';

type Tuning = Omit<SenderOptions, 'endpoint' | 'secureContext'>;

export interface ApnsOptions extends ApnsKey, Tuning {
  /** The app's bundle id. */
  readonly topic: string;
  /** `https://api.push.apple.com`, `https://api.sandbox.push.apple.com`, or another server. */
  readonly endpoint: string;
  /** PEM of one more CA to trust, in addition to the system's. */
  readonly ca?: string | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

/**
 * APNs: HTTP/2, a JWT, `POST /3/device/<token>`.
 *
 * @throws InputError if the key or the endpoint is not usable; the error shows neither.
 */
export function createApnsProvider(options: ApnsOptions): Provider {
  const { key, keyId, teamId, topic, endpoint, ca, now = Date.now, ...tuning } = options;
  return createHttp2Provider({
    platform: 'apns',
    credential: createApnsCredential({ key, keyId, teamId }, now),
    sender: createSender({
      ...tuning,
      endpoint: parseEndpoint(endpoint, 'apns.endpoint'),
      secureContext: trustBeside(ca),
    }),
    prepare: (push) => encodeApns(push, topic, now()),
    readAnswer: (answer, push) => readApnsAnswer(answer, push, now()),
    isExpired: ({ code }) => code === 'ExpiredProviderToken',
  });
}

/** Two methods of the library's Notification that are missing in its type declarations. */
interface Writable {
  headers(): Readonly<Record<string, string | number>>;
  /** The payload as JSON. */
  compile(): string;
}

/** A push as an APNs request at `nowMs` (epoch milliseconds), for the app with this topic (its bundle id). */
function encodeApns(push: Push, topic: string, nowMs: number): Prepared {
  const message = apnsMessage(push, topic, nowMs) as ApnsNotification & Writable;
  const body = message.compile();
  const bytes = Buffer.byteLength(body);
  if (bytes > APNS_MAX_PAYLOAD_BYTES) {
    const detail = `payload: expected at most ${APNS_MAX_PAYLOAD_BYTES} bytes, found ${bytes}`;
    return { kind: 'refused', reply: { ...APNS_REPLIES.PayloadTooLarge, code: 'PayloadTooLarge', detail } };
  }
  return {
    kind: 'ready',
    encoded: { push, path: `/3/device/${tokenOf(push.device)}`, headers: message.headers(), body },
  };
}

function apnsMessage({ notification, pushId, silent }: Push, topic: string, nowMs: number): ApnsNotification {
  const bundleId = notification.apns?.topic ?? topic;
  const { expiration, ...delivery } = apnsDelivery(notification, pushId, silent);
  return new ApnsNotification({
    ...delivery,
    topic: notification.pushType === 'liveactivity' ? liveActivityTopic(bundleId) : bundleId,
    id: pushId,
    ...(expiration === undefined ? {} : { expiry: expiration }),
    rawPayload: apnsPayload(notification, silent, nowMs),
  });
}

export interface ApnsKey {
  /** The .p8 key: PEM, an EC key on P-256. */
  readonly key: string;
  readonly keyId: string;
  readonly teamId: string;
}

/**
 * APNs refuses a token that is older than an hour, and one that replaces another before 20 minutes have passed
 * (developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns).
 */
const LIFETIME_MS = 55 * 60_000;
const RENEW_BELOW_MS = 15 * 60_000;
const LEAST_RENEWAL_MS = 20 * 60_000;

interface Shared {
  readonly credential: Credential;
  /** By `now`. */
  usedAt: number;
}

/**
 * The credentials of this process by key, team and key id; each clock has its own. Apple counts the new tokens of a key, whatever
 * else changes: providers of several apps, or of one whose topic has changed, share one token.
 */
const SHARED = new WeakMap<() => number, Map<string, Shared>>();

/**
 * The JWT for APNs, signed locally with the team's key. One for all that have the same key, key id and team. Throws an InputError
 * if the key is not usable.
 */
export function createApnsCredential({ key, keyId, teamId }: ApnsKey, now: () => number): Credential {
  const privateKey = readKey(key);
  const name = `${teamId} ${keyId} ${fingerprintOf(privateKey)}`;
  const all = SHARED.get(now) ?? new Map<string, Shared>();
  SHARED.set(now, all);

  // Looked up at each use, so that no two are ever in use, even after one was forgotten.
  function shared(): Credential {
    const usedAt = now();
    const known = all.get(name);
    if (known !== undefined) {
      known.usedAt = usedAt;
      return known.credential;
    }
    // The token of one that was not used for so long has expired.
    for (const [other, old] of all) if (usedAt - old.usedAt > LIFETIME_MS) all.delete(other);
    const credential = signedWith(privateKey, { keyId, teamId }, now);
    all.set(name, { credential, usedAt });
    return credential;
  }

  return {
    current: () => shared().current(),
    obtain: () => shared().obtain(),
    replace: (expired) => shared().replace(expired),
  };
}

function signedWith(
  privateKey: KeyObject,
  { keyId, teamId }: Pick<ApnsKey, 'keyId' | 'teamId'>,
  now: () => number,
): Credential {
  return createCredential({
    now,
    renewBelowMs: RENEW_BELOW_MS,
    leastRenewalMs: LEAST_RENEWAL_MS,
    async signIn() {
      const jwt = new SignJWT({ iss: teamId, iat: Math.floor(now() / 1_000) });
      const signed = await jwt.setProtectedHeader({ alg: 'ES256', kid: keyId }).sign(privateKey);
      return { authorization: `bearer ${signed}`, lifetimeMs: LIFETIME_MS };
    },
    // No network is needed, so a failure is a bug here.
    failureReply: () => ({ meaning: 'later', alerted: 'no', unsent: true, trouble: 'auth', code: 'sign-in-failed' }),
  });
}

/** Of the public half, so that it is the same however the PEM is written, and tells nothing. */
function fingerprintOf(privateKey: KeyObject): string {
  return hash('sha256', createPublicKey(privateKey).export({ type: 'spki', format: 'der' }), 'base64url');
}

function readKey(key: string): KeyObject {
  const expected = 'a private EC key on P-256, as PEM';
  const fault = { path: 'apns.key', expected, found: `a string of ${key.length} characters` };
  try {
    const read = createPrivateKey(key);
    if (read.asymmetricKeyDetails?.namedCurve === 'prime256v1') return read;
  } catch {
    // reported below
  }
  throw new InputError('APNs', [fault]);
}
