import type { Rule } from '../domain/limits.ts';

/** There was room: a token was taken. Send before `useBy`. */
export interface Taken {
  /** Send now. */
  readonly kind: 'taken';
  /**
   * On this process's `performance.now()`. The quota is kept only if the send happens before it. Later, drop the token and
   * take a new one.
   */
  readonly useBy: number;
}

/** No room now. Come back in `waitMs` and pass `at` to `take`: room is promised for that instant. */
export interface Over {
  /** Come back later. */
  readonly kind: 'over';
  /** The promised instant: epoch milliseconds on the quota's clock (Redis's). */
  readonly at: number;
  /** Milliseconds until then; 1 or more. */
  readonly waitMs: number;
  /** The rule that makes the wait: `600000/1m`. */
  readonly rule: string;
}

/** The answer of a quota: a token now, or room at a promised instant. */
export type QuotaAnswer = Taken | Over;

/** How much of one rule is used. */
export interface QuotaUse {
  /** The rule's name: `600000/1m`. */
  readonly rule: string;
  /** The most tokens in any window of the rule. */
  readonly max: number;
  /** Tokens that count now, including those that a worker took and has not used yet. */
  readonly used: number;
}

/**
 * A quota that all workers share, such as that of a whole FCM project. Its promise (docs/quota.md explains and proves it): no
 * rolling window of a rule ever has more than `max` used tokens, for all rules at once. An ask without room is promised an
 * instant of its own, and gets its token when it comes back then.
 */
export interface Quota extends AsyncDisposable {
  /**
   * Takes one token. An ask that comes back passes the `at` of its earlier answer: only then it gets the promised room, before
   * all newcomers. Rejects with LimiterUnavailableError if there was no answer, after twice `timeoutMs` at most, plus
   * `timeoutMs` for every 200 asks that wait before it.
   */
  take(promisedAt?: number): Promise<QuotaAnswer>;
  /** How much of each rule is used, the shortest window first. Rejects like `take`. */
  used(): Promise<readonly QuotaUse[]>;
  /** Gives unused tokens back. Nothing can be taken afterwards; never rejects. `await using` calls it by itself. */
  close(): Promise<void>;
}

/** The name and the rules of a quota. They must be the same for all workers that share it. */
export interface QuotaTerms {
  /** 1 to 128 characters of `A-Z a-z 0-9 . _ ~ -`: `fcm-my-project`. */
  readonly name: string;
  /** 1 to 16 rules; all hold at once. `max` up to 1,000,000,000. */
  readonly rules: readonly Rule[];
  /**
   * How many milliseconds the tokens of a batch may be used, and an ask may come back after its promised instant. Default: a twentieth
   * of the shortest window, at most 500 ms. If it is longer, there are fewer calls, but less of the quota can be used at the
   * limit (docs/quota.md).
   */
  readonly leaseMs?: number;
}
