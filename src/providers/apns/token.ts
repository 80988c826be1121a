import { createPrivateKey, createPublicKey, hash, type KeyObject } from 'node:crypto';
import { SignJWT } from 'jose';
import { InputError } from '../../domain/faults.ts';
import { createCredential, type Credential } from '../credential.ts';

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
