import { createPublicKey, hash, type KeyObject } from 'node:crypto';
import { Notification as ApnsNotification } from 'apn';
import { SignJWT } from 'jose';
import { tokenOf } from '../../notification/device.ts';
import type { Notification } from '../../notification/notification.ts';
import { InputError } from '../../domain/faults.ts';
import { createCredential, readP256Key, type Credential } from '../credential.ts';
import type { Encoded, Provider, Prepared, Push } from '../provider.ts';
import { refusedAsTooLarge, signFailure } from '../replies.ts';
import { parseEndpoint, trustBeside } from '../sender/result.ts';
import { createHttp2Provider, createSender, type SenderTuning } from '../sender/sender.ts';
import { readApnsAnswer } from './answers.ts';
import {
  apnsDelivery,
  apnsMaxBytes,
  apnsPayload,
  channelRequest,
  liveActivityTopic,
} from '../../notification/devices/apns/payload.ts';

export interface ApnsOptions extends ApnsKey, SenderTuning {
  /** The app's bundle id. */
  readonly topic: string;
  /** `https://api.push.apple.com`, `https://api.sandbox.push.apple.com`, or another server. */
  readonly endpoint: string;
  /** Where channels are managed (channels.ts). */
  readonly channelsEndpoint?: string | undefined;
  /** One more CA to trust, in addition to the system's, as PEM. */
  readonly ca?: string | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

/**
 * The provider APNs: HTTP/2, a JWT, `POST /3/device/<token>`, and `POST /4/broadcasts/apps/<bundle id>` for a channel.
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

/** A push as an APNs request at `nowMs` (epoch milliseconds), for the app with this topic (its bundle id). */
function encodeApns(push: Push, topic: string, nowMs: number): Prepared {
  const { notification, pushId, silent, device } = push;
  const bundleId = notification.apns?.topic ?? topic;
  if (notification.channel !== undefined) {
    const asked = { pushId, silent, topic: bundleId, nowMs };
    const { path, headers } = channelRequest(notification, notification.channel, asked);
    const body = JSON.stringify(apnsPayload(notification, silent, nowMs));
    return tooLargeFor(notification, body) ?? { kind: 'ready', encoded: { push, path, headers, body } };
  }
  const { expiration, ...delivery } = apnsDelivery(notification, pushId, silent);
  const message = new ApnsNotification({
    ...delivery,
    topic: notification.pushType === 'liveactivity' ? liveActivityTopic(bundleId) : bundleId,
    id: pushId,
    ...(expiration !== undefined && { expiry: expiration }),
    rawPayload: apnsPayload(notification, silent, nowMs),
  });
  const body = JSON.stringify(message);
  const tooLarge = tooLargeFor(notification, body);
  if (tooLarge !== undefined) return tooLarge;
  // The library's type declarations lack this method.
  const headers = (message as unknown as { headers(): Encoded['headers'] }).headers();
  return { kind: 'ready', encoded: { push, path: `/3/device/${tokenOf(device)}`, headers, body } };
}

function tooLargeFor(notification: Notification, body: string): Prepared | undefined {
  return refusedAsTooLarge('PayloadTooLarge', Buffer.byteLength(body), apnsMaxBytes(notification));
}

export interface ApnsKey {
  /** The .p8 key: an EC key on P-256, as PEM. */
  readonly key: string;
  readonly keyId: string;
  readonly teamId: string;
}

/**
 * APNs refuses a token that is older than an hour, and a token that replaces another one before 20 minutes have passed
 * (developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns).
 */
const LIFETIME_MS = 55 * 60_000;
const RENEW_BELOW_MS = 15 * 60_000;
const LEAST_RENEWAL_MS = 20 * 60_000;

/**
 * The credentials of this process by team, key id and key, for each clock. Apple counts the new tokens of a key. So providers
 * with the same key share one token, even if their apps or topics differ. `usedAt`: when the credential was used last, by
 * `now`.
 */
const SHARED = new WeakMap<() => number, Map<string, { readonly credential: Credential; usedAt: number }>>();

/**
 * The JWT for APNs, signed locally with the team's key. Providers with the same key, key id and team share one. Throws an
 * InputError if the key is not usable.
 */
export function createApnsCredential({ key, keyId, teamId }: ApnsKey, now: () => number): Credential {
  const privateKey = usable(key);
  const name = `${teamId} ${keyId} ${fingerprintOf(privateKey)}`;
  const all = SHARED.get(now) ?? new Map<string, { readonly credential: Credential; usedAt: number }>();
  SHARED.set(now, all);

  // Looked up at each use, so that all providers use the same credential, also after it was removed and made again.
  function shared(): Credential {
    const usedAt = now();
    const known = all.get(name) ?? { credential: signedWith(privateKey, { keyId, teamId }, now), usedAt };
    known.usedAt = usedAt;
    all.set(name, known);
    // If a credential was not used for so long, its token has expired.
    for (const [other, old] of all) if (usedAt - old.usedAt > LIFETIME_MS) all.delete(other);
    return known.credential;
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
    failureReply: signFailure,
  });
}

/** A hash of the public half of the key: it is the same however the PEM is written, and reveals nothing of the private key. */
function fingerprintOf(privateKey: KeyObject): string {
  return hash('sha256', createPublicKey(privateKey).export({ type: 'spki', format: 'der' }), 'base64url');
}

function usable(pem: string): KeyObject {
  const key = readP256Key(pem);
  if (key !== undefined) return key;
  const expected = 'a private EC key on P-256, as PEM';
  throw new InputError('APNs', [{ path: 'apns.key', expected, found: `a string of ${pem.length} characters` }]);
}
