import type { KeyObject } from 'node:crypto';
import { jwtVerify } from 'jose';
import type { WebpushReason } from './reasons.ts';

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

interface CheckedToken {
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
