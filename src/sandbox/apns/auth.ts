import type { KeyObject } from 'node:crypto';
import { decodeProtectedHeader, jwtVerify } from 'jose';
import type { ApnsReason } from './reasons.ts';

/** A key whose tokens are accepted. */
export interface ApnsSigner {
  readonly publicKey: KeyObject;
  readonly keyId: string;
  readonly teamId: string;
}

export type TokenVerdict =
  | { readonly ok: true; readonly jwt: string; readonly keyId: string }
  | { readonly ok: false; readonly reason: ApnsReason };

/** APNs refuses a token from this age on. */
const MAX_AGE_MS = 3_600_000;
/** How far the clock of a token's maker may be ahead of this machine's. */
const MAX_SKEW_MS = 60_000;
/** How many checked tokens to remember; a provider needs one at a time. */
const MAX_REMEMBERED = 1_000;

/** A token whose signature, kid and iss were found right. */
interface CheckedToken {
  readonly keyId: string;
  readonly issuedAt: number;
  isExpired: boolean;
}

/** Checks provider tokens: ES256 JWTs with `kid` in the header and the claims `iss` and `iat`. */
export class TokenJudge {
  /** By key id. */
  readonly #signers = new Map<string, ApnsSigner>();
  readonly #revoked = new Set<string>();
  readonly #now: () => number;
  /** Remembers the checks, because verifying a signature costs more than the rest of a request. */
  readonly #checked = new Map<string, Promise<CheckedToken | undefined>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Tokens of this key are accepted from now on, beside those of the keys before. */
  add(signer: ApnsSigner): void {
    this.#signers.set(signer.keyId, signer);
  }

  /** From now on the key is revoked, or good again; without an id, all keys. */
  setRevoked(isRevoked: boolean, keyId?: string): void {
    for (const id of keyId === undefined ? this.#signers.keys() : [keyId]) {
      if (isRevoked) this.#revoked.add(id);
      else this.#revoked.delete(id);
    }
  }

  /** Every token that was seen so far counts as older than an hour. */
  async expireSeen(): Promise<void> {
    for (const token of await Promise.all(this.#checked.values())) if (token) token.isExpired = true;
  }

  async judge(authorization: string | undefined): Promise<TokenVerdict> {
    const [scheme, jwt] = (authorization ?? '').split(/ +/);
    if (!scheme || !jwt) return { ok: false, reason: 'MissingProviderToken' };
    if (scheme.toLowerCase() !== 'bearer') return { ok: false, reason: 'InvalidProviderToken' };
    const token = await this.#check(jwt);
    if (!token || this.#revoked.has(token.keyId)) return { ok: false, reason: 'InvalidProviderToken' };
    if (token.issuedAt > this.#now() + MAX_SKEW_MS) return { ok: false, reason: 'InvalidProviderToken' };
    const isExpired = token.isExpired || this.#now() - token.issuedAt >= MAX_AGE_MS;
    return isExpired ? { ok: false, reason: 'ExpiredProviderToken' } : { ok: true, jwt, keyId: token.keyId };
  }

  #check(jwt: string): Promise<CheckedToken | undefined> {
    const known = this.#checked.get(jwt);
    if (known) return known;
    const [oldest] = this.#checked.keys();
    if (oldest !== undefined && this.#checked.size >= MAX_REMEMBERED) this.#checked.delete(oldest);
    const checking = this.#verify(jwt);
    this.#checked.set(jwt, checking);
    return checking;
  }

  async #verify(jwt: string): Promise<CheckedToken | undefined> {
    try {
      const signer = this.#signers.get(decodeProtectedHeader(jwt).kid ?? '');
      if (signer === undefined) return undefined;
      const { publicKey, keyId, teamId } = signer;
      const { payload } = await jwtVerify(jwt, publicKey, { algorithms: ['ES256'], issuer: teamId });
      if (payload.iat === undefined) return undefined;
      return { keyId, issuedAt: payload.iat * 1_000, isExpired: false };
    } catch {
      return undefined;
    }
  }
}
