import type { Rule } from '../domain/limits.ts';

/** There was room: send before `useBy`. */
export interface Taken {
  readonly kind: 'taken';
  /**
   * On this process's `performance.now()`. A send before it is within the promise; one that was put off for longer is
   * better thrown away, and asked for anew.
   */
  readonly useBy: number;
}

/** No room now. Come back in `waitMs`, and hand `at` to that `take`: there is room set aside for it. */
export interface Over {
  readonly kind: 'over';
  /** The instant that is set aside: epoch milliseconds on the quota's clock (Redis's). */
  readonly at: number;
  /** Until then; 1 or more. */
  readonly waitMs: number;
  /** The rule that makes the wait: `600000/1m`. */
  readonly rule: string;
}

export type QuotaAnswer = Taken | Over;

/** How far one rule is used up. */
export interface QuotaUse {
  /** `600000/1m` */
  readonly rule: string;
  readonly max: number;
  /** Tokens that count now, those leased and not yet used among them. */
  readonly used: number;
}

/**
 * A quota that everybody shares, such as that of a whole FCM project. Its promise (docs/quota.md tells and proves it):
 * never more than `max` tokens used in any rolling window of a rule, every rule at once; who is sent away is told an
 * instant at which there will be room, each its own, and is not sent away again when it comes back then.
 */
export interface Quota {
  /**
   * Takes one token. Who was sent away hands over the `at` that it was told: only so it is given the room that was set
   * aside, and newcomers stand behind it. Rejects with LimiterUnavailableError when there was no answer, after twice
   * `timeoutMs` at the most, and once more for every 200 that wait before it.
   */
  take(promisedAt?: number): Promise<QuotaAnswer>;
  /** How far each rule is used up, in the order of their windows. Rejects like `take`. */
  used(): Promise<readonly QuotaUse[]>;
  /** Gives back what is leased and unused. Nothing can be taken after it; never rejects. */
  close(): Promise<void>;
}

/** What all workers that share a quota have to agree on. */
export interface QuotaTerms {
  /** Any of `A-Z a-z 0-9 . _ ~ -`, 1 to 128: `fcm-my-project`. */
  readonly name: string;
  /** All hold at once; `max` up to 1,000,000,000. */
  readonly rules: readonly Rule[];
  /**
   * How long leased tokens may be used, and how late somebody who was sent away may come back; a twentieth of the
   * shortest window, at most 500 ms, where it is left out. The longer, the fewer calls, and the less of the quota is
   * used at the limit (docs/quota.md).
   */
  readonly leaseMs?: number;
}
