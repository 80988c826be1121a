import type { Tier } from './quota.ts';

/** The counts of a quota in one tier: bucket → tokens. */
interface Counts {
  readonly tier: Tier;
  readonly taken: Map<number, number>;
  readonly promised: Map<number, number>;
}

/** A promised instant, and the rule that makes the wait. */
interface Promised {
  readonly at: number;
  readonly rule: string;
}

/** A quota's counts in memory. The algorithm is quota.lua's, for one ask at a time; the reasons are explained there. */
export interface QuotaBook {
  /** Takes a token, or promises an instant. Instants are whole epoch milliseconds. */
  take(now: number, promisedAt?: number): 'taken' | Promised;
  /** How many tokens count now in each tier. */
  used(now: number): number[];
}

export const GRACE_MS = 1_000;
export const NO_SHOW_MS = 60_000;

export function createQuotaBook(tiers: readonly Tier[]): QuotaBook {
  const counts = tiers.map((tier): Counts => ({ tier, taken: new Map(), promised: new Map() }));
  let tail = 0;
  let tailRule = 'none';

  function takeAt(now: number): 'taken' {
    for (const { tier, taken } of counts) add(taken, bucketOf(tier, now), 1);
    return 'taken';
  }

  function claim(at: number): void {
    for (const { tier, promised } of counts) add(promised, bucketOf(tier, at), -1);
  }

  function promise(now: number): Promised {
    let at = Math.max(now, tail);
    for (let before = NaN; before !== at;) {
      before = at;
      for (const each of counts) {
        if (planned(each, at, now) < each.tier.max) continue;
        at = freeAt(each, at, now);
        tailRule = each.tier.name;
      }
    }
    const { room } = tightest(counts, (each) => planned(each, at, now));
    const stop = Math.min(...tiers.map((tier) => (bucketOf(tier, at) + 1) * tier.widthMs));
    tail = at === tail ? at + (stop - at) / (room + 1) : at;
    for (const { tier, promised } of counts) add(promised, bucketOf(tier, tail), 1);
    return { at: Math.floor(tail), rule: tailRule };
  }

  /** A taken token that lies further ahead than a token counts is damage: the clock was set back since. Forgets all then. */
  function forgetDamage(now: number): void {
    const isGone = ({ tier, taken }: Counts) => [...taken.keys()].some((key) => key > bucketOf(tier, now) + tier.span);
    if (!counts.some(isGone)) return;
    for (const { taken, promised } of counts) {
      taken.clear();
      promised.clear();
    }
    tail = 0;
  }

  function prune(now: number): void {
    for (const { tier, taken, promised } of counts) {
      dropBefore(taken, bucketOf(tier, now) - tier.span + 1);
      dropBefore(promised, bucketOf(tier, now - GRACE_MS));
    }
  }

  return {
    take(now, promisedAt) {
      forgetDamage(now);
      prune(now);
      if (promisedAt !== undefined) {
        const { room, decides } = tightest(counts, (each) => usedAt(each, now));
        const hasBegun = tiers.every((tier) => bucketOf(tier, promisedAt) <= bucketOf(tier, now));
        if (room > 0 && hasBegun && promisedAt >= now - NO_SHOW_MS) {
          claim(promisedAt);
          return takeAt(now);
        }
        const isPromised = counts.every(({ tier, promised }) => promised.has(bucketOf(tier, promisedAt)));
        if (promisedAt > now && isPromised) return { at: promisedAt, rule: decides.tier.name };
        if (promisedAt <= now) claim(promisedAt);
      }
      const isFree = Math.floor(tail) <= now && counts.every((each) => planned(each, now, now) < each.tier.max);
      return isFree ? takeAt(now) : promise(now);
    },
    used: (now) => counts.map((each) => usedAt(each, now)),
  };
}

function bucketOf({ widthMs }: Tier, at: number): number {
  return Math.floor(at / widthMs);
}

/** What counts at an instant: taken tokens of the last `span` buckets, promised ones of `slack` more; overdue ones as of now. */
function* counting({ tier, taken, promised }: Counts, at: number, now: number) {
  const bucket = bucketOf(tier, at);
  const current = bucketOf(tier, now);
  for (const [each, count] of taken) if (each > bucket - tier.span) yield { count, until: each + tier.span };
  const lasts = tier.span + tier.slack;
  for (const [each, count] of promised) {
    const from = Math.max(each, current);
    if (from > bucket - lasts && from <= bucket) yield { count, until: from + lasts };
  }
}

function planned(counts: Counts, at: number, now: number): number {
  let total = 0;
  for (const { count } of counting(counts, at, now)) total += count;
  return total;
}

function freeAt(counts: Counts, at: number, now: number): number {
  let free = Infinity;
  for (const { until } of counting(counts, at, now)) free = Math.min(free, until * counts.tier.widthMs);
  return free;
}

function usedAt({ tier, taken }: Counts, now: number): number {
  let total = 0;
  for (const [bucket, count] of taken) if (bucket > bucketOf(tier, now) - tier.span) total += count;
  return total;
}

function tightest(counts: readonly Counts[], used: (each: Counts) => number) {
  const rooms = counts.map((decides) => ({ room: decides.tier.max - used(decides), decides }));
  return rooms.reduce((least, each) => (each.room < least.room ? each : least));
}

function add(counts: Map<number, number>, bucket: number, by: number): void {
  const count = (counts.get(bucket) ?? 0) + by;
  if (count > 0) counts.set(bucket, count);
  else counts.delete(bucket);
}

function dropBefore(counts: Map<number, number>, oldest: number): void {
  for (const bucket of counts.keys()) if (bucket < oldest) counts.delete(bucket);
}
