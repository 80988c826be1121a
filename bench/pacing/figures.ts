import type { Policy } from '../../src/domain/limits.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { alertsByRecipient, idealMakespan, judge, type Arrival } from '../../sandbox/judge.ts';

/** What Redis knows of a job after its end. */
export interface JobFacts {
  /** How often it was put back until a slot; it was passed through a worker once more than this. */
  readonly requeues: number;
  /** When it was taken for the last time: epoch milliseconds; undefined if it never was. */
  readonly takenAt: number | undefined;
}

/** By notification. */
export type Jobs = ReadonlyMap<string, JobFacts>;

/** How many values are at most so large, by upper bound in milliseconds: a cumulative histogram. The last bound is `Infinity`. */
export type Buckets = ReadonlyMap<number, number>;

/** Milliseconds, or a ratio; NaN of no values. */
export interface Spread {
  readonly p50: number;
  readonly p99: number;
  readonly worst: number;
}

export interface Kept {
  /** Alerts that came too close to the one before, and windows with too many, by what the judge allows. */
  readonly violations: number;
  readonly leastGapMs: number;
  readonly duplicates: number;
  /** Enqueued, and never accepted. */
  readonly lost: number;
}

/** The value below which this share of the values lies: `quantile(values, 0.5)`. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

export function spreadOf(values: readonly number[]): Spread {
  return { p50: quantile(values, 0.5), p99: quantile(values, 0.99), worst: quantile(values, 1) };
}

/** Whether the limits were kept, and all of these notifications delivered once. */
export function keptBy(arrivals: readonly Arrival[], ids: readonly string[], policy: Policy): Kept {
  const { gapViolations, windowViolations, minGapMs, duplicates } = judge(arrivals, policy);
  const accepted = new Set(arrivals.map(({ notificationId }) => notificationId));
  return {
    violations: gapViolations + windowViolations,
    leastGapMs: minGapMs ?? NaN,
    duplicates,
    lost: ids.filter((id) => !accepted.has(id)).length,
  };
}

/** For each recipient with several alerts, the time from the first to the last, over the shortest that the policy allows. */
export function makespanRatios(arrivals: readonly Arrival[], policy: Policy): number[] {
  return [...alertsByRecipient(arrivals, policy.minGapMs).values()]
    .filter((times) => times.length > 1)
    .map((times) => ((times.at(-1)?.at ?? 0) - (times[0]?.at ?? 0)) / idealMakespan(times.length, policy));
}

/** How often workers dealt with each notification. */
export function passesOf(jobs: Jobs, ids: readonly string[]): { readonly mean: number; readonly worst: number } {
  const passes = ids.map((id) => 1 + (jobs.get(id)?.requeues ?? 0));
  return { mean: passes.reduce((total, each) => total + each, 0) / passes.length, worst: Math.max(...passes) };
}

/** How long a pass took to send, of a notification that was due. */
export interface Took {
  /** From when the worker took the job until its request arrived, with the time that the worker waited for the slot. */
  readonly allMs: number;
  /** The same without the wait: from when the job was taken and a gap had passed since the recipient's alert before. */
  readonly ownMs: number;
  readonly arrivedAt: number;
}

/** Of every notification to one recipient that had been put back. `arrivals` are that recipient's, in order. */
export function tookOf(arrivals: readonly Arrival[], jobs: Jobs, { minGapMs }: Policy): Took[] {
  return arrivals.flatMap(({ notificationId, at }, index) => {
    const { requeues = 0, takenAt } = jobs.get(notificationId) ?? ({} as Partial<JobFacts>);
    if (requeues === 0 || takenAt === undefined) return [];
    const allowedAt = (arrivals[index - 1]?.at ?? -Infinity) + minGapMs;
    return [{ allMs: at - takenAt, ownMs: Math.max(0, at - Math.max(takenAt, allowedAt)), arrivedAt: at }];
  });
}

/** By how much an id of this policy may be late and still be sent: the limiter itself says it. */
export async function lateToleranceMs(policy: Policy): Promise<number> {
  const { toleranceMs } = await createMemoryLimiter({ policy }).peek({ recipientId: 'teacher-1', id: 'msg-1' });
  return toleranceMs;
}

/** The buckets of a histogram in seconds, on a page in Prometheus' text format. */
export function readBuckets(page: string, name: string): Buckets {
  const lines = page.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)"\\} (\\d+)`, 'gm'));
  return new Map([...lines].map(([, le, count]) => [le === '+Inf' ? Infinity : Number(le) * 1_000, Number(count)]));
}

export function sum(all: readonly Buckets[]): Buckets {
  const bounds = new Set(all.flatMap((each) => [...each.keys()]));
  return new Map([...bounds].map((bound) => [bound, all.reduce((total, each) => total + (each.get(bound) ?? 0), 0)]));
}

export function subtract(buckets: Buckets, before: Buckets): Buckets {
  return new Map([...buckets].map(([bound, count]) => [bound, count - (before.get(bound) ?? 0)]));
}

export function countOf(buckets: Buckets): number {
  return buckets.get(Infinity) ?? 0;
}

/** How many values lie above the largest bound that is not above `ms`: some of them may still be below `ms`. */
export function countAbove(buckets: Buckets, ms: number): number {
  const bound = Math.max(...[...buckets.keys()].filter((each) => each <= ms));
  return countOf(buckets) - (buckets.get(bound) ?? 0);
}

/** The quantile, as if the values of a bucket lay evenly between its bounds. Of the last bucket its lower bound. */
export function bucketQuantile(buckets: Buckets, share: number): number {
  const rank = share * countOf(buckets);
  let [lower, below] = [0, 0];
  for (const [bound, count] of buckets) {
    if (count >= rank && count > 0) {
      if (bound === Infinity) return lower;
      return lower + ((bound - lower) * (rank - below)) / (count - below || 1);
    }
    [lower, below] = [bound, count];
  }
  return NaN;
}
