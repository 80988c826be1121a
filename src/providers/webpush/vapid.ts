import { createECDH, createPrivateKey, type KeyObject } from 'node:crypto';
import { SignJWT } from 'jose';
import { createCredential, type Credential } from '../credential.ts';

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
  try {
    return written.startsWith('-----BEGIN') ? fromPem(written) : fromBase64url(written);
  } catch {
    return undefined;
  }
}

function fromPem(pem: string): VapidKey | undefined {
  const privateKey = createPrivateKey(pem);
  if (privateKey.asymmetricKeyDetails?.namedCurve !== 'prime256v1') return undefined;
  const { x = '', y = '' } = privateKey.export({ format: 'jwk' });
  const point = Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]);
  return { privateKey, publicKey: point.toString('base64url') };
}

function fromBase64url(text: string): VapidKey | undefined {
  if (!/^[A-Za-z0-9_-]{43}=?$/.test(text)) return undefined;
  const pair = createECDH('prime256v1');
  pair.setPrivateKey(text, 'base64url');
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
    // No network is needed, so a failure is a bug here.
    failureReply: () => ({ meaning: 'later', alerted: 'no', unsent: true, trouble: 'auth', code: 'sign-in-failed' }),
  });
}
