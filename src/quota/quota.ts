import { describeFound, InputError, optionFaults, type Fault } from '../domain/faults.ts';
import { type Rule, MAX_WINDOW_MS, ruleFaults, ruleName } from '../domain/limits.ts';

/** There was room: a token was taken. Send before `useBy`. */
export interface Taken {
  /** Send now. */
  readonly kind: 'taken';
  /**
   * Send before this instant of this process's `performance.now()`: only then the quota is kept. After this instant, drop the
   * token and take a new one.
   */
  readonly useBy: number;
}

/** No room now. Come back in `waitMs` and pass `at` to `take`: room is promised for that instant. */
export interface Over {
  /** Come back later. */
  readonly kind: 'over';
  /** The promised instant: epoch milliseconds on the quota's clock (Redis's). */
  readonly at: number;
  /** Milliseconds until `at`; 1 or more. */
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
 * A quota that all workers share, such as that of a whole FCM project. It promises (docs/quota.md explains and proves it): no
 * rolling window of a rule ever has more than `max` used tokens, for all rules at once. An ask that finds no room is promised
 * an instant of its own, and gets its token when it comes back then.
 */
export interface Quota extends AsyncDisposable {
  /**
   * Takes one token. An ask that comes back passes the `at` of its earlier answer: only then does it get the promised room,
   * before all newcomers. Without an answer, rejects with LimiterUnavailableError: after twice `timeoutMs` at the latest, plus
   * `timeoutMs` for every 200 asks that wait before this ask.
   */
  take(promisedAt?: number): Promise<QuotaAnswer>;
  /** How much of each rule is used, the shortest window first. Rejects like `take`. */
  used(): Promise<readonly QuotaUse[]>;
  /** Gives unused tokens back. After it nothing can be taken; never rejects. `await using` calls it by itself. */
  close(): Promise<void>;
}

/** The name and the rules of a quota. They must be the same for all workers that share it. */
export interface QuotaTerms {
  /** 1 to 128 characters of `A-Z a-z 0-9 . _ ~ -`: `fcm-my-project`. */
  readonly name: string;
  /** 1 to 16 rules; all apply at once. `max` up to 1,000,000,000. */
  readonly rules: readonly Rule[];
  /**
   * For how many milliseconds the tokens of a batch may be used, and how late after its promised instant an ask may come back.
   * Default: a twentieth of the shortest window, at most 500 ms. If it is longer, there are fewer calls, but less of the quota
   * can be used at the limit (docs/quota.md).
   */
  readonly leaseMs?: number;
}

/** A rule as the quota counts it: in buckets of `widthMs` milliseconds, numbered from the epoch. */
export interface Tier {
  /** The rule's name: `600000/1m`. */
  readonly name: string;
  readonly max: number;
  readonly perMs: number;
  readonly widthMs: number;
  /** For how many buckets a token counts, including the one in which it was taken. */
  readonly span: number;
  /** A promised token is planned to count for this many more buckets, since its ask may come up to `leaseMs` late. */
  readonly slack: number;
}

/** Checked terms, with the values that are computed from them. */
export interface CheckedTerms {
  readonly name: string;
  /** One tier for each window length, the shortest first. */
  readonly tiers: readonly Tier[];
  readonly leaseMs: number;
}

/** The most tokens that a rule may count. A count is one number, so this limit only keeps sums exact. */
const MAX_TOKENS = 1_000_000_000;
/** Buckets in a window. Counting by buckets loses up to 1/100 of a window, and Redis stores 128 entries compactly. */
const BUCKETS = 100;
/** At most GRACE_MS of quota.lua, the time for which an overdue promise keeps its room. */
const MAX_LEASE_MS = 1_000;
const NAME = /^[\w.~-]{1,128}$/;

const MEANT = {
  max: 'rules',
  per: 'rules',
  perMs: 'rules',
  policy: 'rules',
  client: 'redis',
  connection: 'redis',
  url: 'redis',
};

/** Throws InputError with every option that does not exist. @param names all options of this kind of quota */
export function checkQuotaOptions(options: object, names: Readonly<Record<string, true>>): void {
  const faults = optionFaults(options, names, '', MEANT);
  if (faults.length > 0) throw new InputError('unusable options', faults);
}

/** Throws InputError with every fault of the terms. */
export function checkTerms({ name, rules, leaseMs }: QuotaTerms): CheckedTerms {
  const faults: Fault[] = [];
  if (typeof name !== 'string' || !NAME.test(name)) {
    const expected = '1 to 128 of A-Z a-z 0-9 . _ ~ -';
    faults.push({ path: 'name', expected, found: describeFound(name, false) });
  }
  faults.push(...ruleFaults(rules, 'rules', { max: MAX_TOKENS, perMs: MAX_WINDOW_MS }, 1));
  if (faults.length > 0) throw new InputError('unusable quota', faults);
  const shortestMs = Math.min(...rules.map(({ perMs }) => perMs));
  const longestLeaseMs = Math.min(MAX_LEASE_MS, shortestMs);
  if (leaseMs !== undefined && !isInteger(leaseMs, 1, longestLeaseMs)) {
    const expected = `an integer from 1 to ${longestLeaseMs} (the shortest window, 1 s at the most)`;
    throw new InputError('unusable quota', [{ path: 'leaseMs', expected, found: describeFound(leaseMs, false) }]);
  }
  const lease = leaseMs ?? Math.max(1, Math.min(500, Math.floor(shortestMs / 20)));
  return { name, leaseMs: lease, tiers: tiersOf(rules, lease) };
}

/** Throws InputError if this cannot be the `at` of an earlier answer. */
export function checkPromise(promisedAt: number | undefined): void {
  if (promisedAt === undefined || Number.isSafeInteger(promisedAt)) return;
  const fault = { path: 'promisedAt', expected: '`at` of an earlier answer, in epoch ms', found: String(promisedAt) };
  throw new InputError('unusable promise', [fault]);
}

/** Of two rules with the same window only the stricter one matters. */
function tiersOf(rules: readonly Rule[], leaseMs: number): Tier[] {
  const strictest = new Map<number, number>();
  for (const { max, perMs } of rules) strictest.set(perMs, Math.min(max, strictest.get(perMs) ?? Infinity));
  const sorted = [...strictest].toSorted(([a], [b]) => a - b);
  return sorted.map(([perMs, max]) => {
    const widthMs = Math.ceil(perMs / BUCKETS);
    const span = 1 + Math.ceil((perMs + leaseMs) / widthMs);
    return { name: ruleName({ max, perMs }), max, perMs, widthMs, span, slack: Math.ceil(leaseMs / widthMs) };
  });
}

function isInteger(value: number, least: number, most: number): boolean {
  return Number.isSafeInteger(value) && value >= least && value <= most;
}
