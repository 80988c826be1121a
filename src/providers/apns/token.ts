import { createPrivateKey, type KeyObject } from 'node:crypto';
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

/** The JWT for APNs, signed locally with the team's key. Throws an InputError if the key is not usable. */
export function createApnsCredential({ key, keyId, teamId }: ApnsKey, now: () => number): Credential {
  const privateKey = readKey(key);
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
