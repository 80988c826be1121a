import { createPrivateKey, type KeyObject } from 'node:crypto';
import { doubledMs, within } from '../domain/time.ts';
import type { Reach, Reply } from './provider.ts';

/** The `authorization` header of a provider. All sends share one sign-in, which is renewed before it expires. */
export interface Credential {
  /** The header, if it is valid now. Starts a renewal if the header expires soon. */
  current(): string | undefined;
  /** The header, or the reply to a send that needs it. One sign-in runs at a time; after a failure the next one waits. */
  obtain(): Promise<string | Reply>;
  /** For a header that the provider calls expired. True if there is a new header now: repeat the send. */
  replace(expired: string): Promise<boolean>;
  /** Whether the server of the sign-in can be reached. Absent or undefined: no server is needed, or none has failed yet. */
  reach?(): Reach | undefined;
}

export interface CredentialOptions {
  /** Signs in once. Rejects if that fails. */
  readonly signIn: () => Promise<SignedIn>;
  /** The reply to a send whose sign-in failed. Nothing was sent. */
  readonly failureReply: (error: unknown) => Reply;
  /**
   * The server that a failed sign-in could not reach, and why; undefined if the server refused. Absent: the sign-in needs no
   * network.
   */
  readonly unreachedBy?: (error: unknown) => Unreached | undefined;
  /** A new sign-in begins when the header is valid for less than this (milliseconds). Until then sends use that header. */
  readonly renewBelowMs: number;
  /** The shortest time between two renewals, even if the provider says that the credentials have expired. Milliseconds. */
  readonly leastRenewalMs: number;
  /** A sign-in that takes longer than this has failed. Default: 10,000 ms. */
  readonly timeoutMs?: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** The result of a sign-in. */
export interface SignedIn {
  /** The value of the `authorization` header. */
  readonly authorization: string;
  /** How long the header is valid from now on, in milliseconds. Infinity: it does not expire. */
  readonly lifetimeMs: number;
}

/** A server that a sign-in could not reach. */
export interface Unreached {
  readonly host: string;
  readonly cause: string;
  readonly detail?: string;
}

/** If the header is valid for less than this, a send waits for the new sign-in. */
const USE_ABOVE_MS = 30_000;
/** If the clock was set back by more than this, the end of the sign-in is unknown, so the sign-in is renewed. */
const MAX_SET_BACK_MS = 60_000;
/** The wait after a failed sign-in, doubled with each failure. */
const BACKOFF = { firstMs: 1_000, lastMs: 60_000 };

export function createCredential(options: CredentialOptions): Credential {
  const { signIn, failureReply, unreachedBy, renewBelowMs, leastRenewalMs, timeoutMs = 10_000, now } = options;
  let valid: { readonly authorization: string; readonly expiresAt: number; readonly since: number } | undefined;
  let failed: { readonly reply: Reply; readonly at: number; readonly waitMs: number } | undefined;
  let failures = 0;
  let unreached: (Unreached & { readonly since: number }) | undefined;
  /** The latest server that could not be reached. */
  let host: string | undefined;
  let renewal: Promise<string | Reply> | undefined;

  const leftMs = (): number => (valid === undefined ? -Infinity : valid.expiresAt - now());
  const isYoung = (): boolean => valid !== undefined && isWithin(now() - valid.since, leastRenewalMs);

  const isSetBack = (): boolean => valid !== undefined && now() < valid.since - MAX_SET_BACK_MS;

  /** The reply of the last failure, as long as the next sign-in must wait because of it. */
  function recentFailure(): Reply | undefined {
    return failed !== undefined && isWithin(now() - failed.at, failed.waitMs) ? failed.reply : undefined;
  }

  async function renew(): Promise<string | Reply> {
    const beganAt = now();
    try {
      const { authorization, lifetimeMs } = await within(signIn(), timeoutMs, () => {
        throw Object.assign(new Error(`no sign-in within ${timeoutMs} ms`), { code: 'ETIMEDOUT' });
      });
      valid = { authorization, expiresAt: now() + lifetimeMs, since: now() };
      failed = undefined;
      failures = 0;
      unreached = undefined;
      return authorization;
    } catch (error) {
      failures += 1;
      const found = unreachedBy?.(error);
      unreached = found && { ...found, since: unreached?.since ?? beganAt };
      host = found?.host ?? host;
      const waitMs = doubledMs(BACKOFF.firstMs, BACKOFF.lastMs, failures - 1);
      failed = { reply: failureReply(error), at: now(), waitMs };
      return failed.reply;
    }
  }

  function renewOnce(): Promise<string | Reply> {
    const failure = recentFailure();
    if (failure !== undefined) return Promise.resolve(failure);
    renewal ??= renew().finally(() => (renewal = undefined));
    return renewal;
  }

  return {
    current() {
      const left = leftMs();
      // Without `isYoung`, a header with a short lifetime would be renewed with every send.
      if ((left < renewBelowMs || isSetBack()) && !isYoung()) void renewOnce();
      return left > USE_ABOVE_MS ? valid?.authorization : undefined;
    },
    obtain() {
      return valid !== undefined && leftMs() > USE_ABOVE_MS ? Promise.resolve(valid.authorization) : renewOnce();
    },
    async replace(expired) {
      if (valid !== undefined && valid.authorization !== expired) return true;
      // If a clock is wrong, the provider calls every new header expired: then do not renew again and again.
      if (isYoung()) return false;
      valid = undefined;
      const fresh = await renewOnce();
      return typeof fresh === 'string' && fresh !== expired;
    },
    reach() {
      if (host === undefined) return undefined;
      const { cause, detail, since } = unreached ?? {};
      if (cause === undefined || since === undefined) return { host, isSignIn: true };
      const failure = { cause, ...(detail !== undefined && { detail }), forMs: Math.max(0, now() - since) };
      return { host, isSignIn: true, failure };
    },
  };
}

/** The private key on P-256 in a PEM text; undefined for anything else. */
export function readP256Key(pem: string): KeyObject | undefined {
  try {
    const key = createPrivateKey(pem);
    return key.asymmetricKeyDetails?.namedCurve === 'prime256v1' ? key : undefined;
  } catch {
    return undefined;
  }
}

/** If `agoMs` is negative, the clock was set back: then the answer is false. */
function isWithin(agoMs: number, limitMs: number): boolean {
  return agoMs >= 0 && agoMs < limitMs;
}
