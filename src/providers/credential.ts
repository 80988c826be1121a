import { doubledMs, within } from '../domain/time.ts';
import type { Reply } from './provider.ts';

/** What a sign-in gave. */
export interface SignedIn {
  /** The value of the `authorization` header. */
  readonly authorization: string;
  /** How long it is valid from now on, milliseconds; Infinity where it does not expire. */
  readonly lifetimeMs: number;
}

export interface CredentialOptions {
  /** One sign-in. Rejects where there is none. */
  readonly signIn: () => Promise<SignedIn>;
  /** What a failed sign-in means for a send that needed it. Nothing was sent. */
  readonly failureReply: (error: unknown) => Reply;
  /** With less than this left a new sign-in begins, while the old one is still used; milliseconds. */
  readonly renewBelowMs: number;
  /** Credentials that the provider calls expired are renewed early, but not more often than this; milliseconds. */
  readonly leastRenewalMs: number;
  /** A sign-in that takes longer has failed. 10,000 ms. */
  readonly timeoutMs?: number;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** The `authorization` header of a provider: signed in once for all sends, renewed ahead of its end. */
export interface Credential {
  /** The header, where one is valid now. Begins a renewal where its end is near. */
  current(): string | undefined;
  /** The header, or the reply to the send that needed it. One sign-in at a time; after a failure the next one waits. */
  obtain(): Promise<string | Reply>;
  /** The provider called this header expired. True where another one took its place: the send is worth repeating. */
  replace(expired: string): Promise<boolean>;
}

/** With less than this left a send waits for the new sign-in. */
const USE_ABOVE_MS = 30_000;
/** After a failed sign-in: the wait before the next, doubled each time. */
const BACKOFF = { firstMs: 1_000, lastMs: 60_000 };

export function createCredential(options: CredentialOptions): Credential {
  const { signIn, failureReply, renewBelowMs, leastRenewalMs, timeoutMs = 10_000, now } = options;
  let held: { readonly authorization: string; readonly expiresAt: number; readonly since: number } | undefined;
  let failed: { readonly reply: Reply; readonly at: number; readonly waitMs: number } | undefined;
  let failures = 0;
  let renewal: Promise<string | Reply> | undefined;

  const leftMs = (): number => (held === undefined ? -Infinity : held.expiresAt - now());
  const isYoung = (): boolean => held !== undefined && isWithin(now() - held.since, leastRenewalMs);

  /** The failure that keeps the next sign-in waiting. */
  function recentFailure(): Reply | undefined {
    return failed !== undefined && isWithin(now() - failed.at, failed.waitMs) ? failed.reply : undefined;
  }

  async function renew(): Promise<string | Reply> {
    try {
      const { authorization, lifetimeMs } = await within(signIn(), timeoutMs, () => {
        throw Object.assign(new Error(`no sign-in within ${timeoutMs} ms`), { code: 'ETIMEDOUT' });
      });
      held = { authorization, expiresAt: now() + lifetimeMs, since: now() };
      failed = undefined;
      failures = 0;
      return authorization;
    } catch (error) {
      failures += 1;
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
      // One with a short life from the start is not renewed with every send.
      if (left < renewBelowMs && !isYoung()) void renewOnce();
      return left > USE_ABOVE_MS ? held?.authorization : undefined;
    },
    obtain() {
      return held !== undefined && leftMs() > USE_ABOVE_MS ? Promise.resolve(held.authorization) : renewOnce();
    },
    async replace(expired) {
      if (held !== undefined && held.authorization !== expired) return true;
      // Where a clock is wrong, every new one is called expired as well.
      if (isYoung()) return false;
      held = undefined;
      const fresh = await renewOnce();
      return typeof fresh === 'string' && fresh !== expired;
    },
  };
}

/** An instant that lies ahead is none: the clock was set back. */
function isWithin(agoMs: number, limitMs: number): boolean {
  return agoMs >= 0 && agoMs < limitMs;
}
