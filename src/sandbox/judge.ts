import type { Policy } from '../domain/limits.ts';

/** One alert that a provider accepted, as the journal has it. */
export interface Arrival {
  readonly recipientId: string;
  readonly notificationId: string;
  readonly device: string;
  /** Arrival at the provider, milliseconds on one clock. */
  readonly at: number;
}

export interface Verdict {
  readonly gapViolations: number;
  readonly windowViolations: number;
  /** The same notification accepted more than once for the same device. */
  readonly duplicates: number;
  /** The least time between two alerts of one recipient; null where no recipient had two. */
  readonly minGapMs: number | null;
  /** The most alerts of one recipient in any window of the first rule. */
  readonly maxInWindow: number;
  /** Of the recipient with the longest ideal schedule: first accepted alert to last. */
  readonly makespanMs: number;
  readonly idealMakespanMs: number;
  readonly makespanRatio: number;
}

/** Allowed between a slot and the provider's time stamp: a send may leave up to 25 ms late, and arrives a little later. */
export const TOLERANCE_MS = 50;
/** Without a gap, a worker sends a notification to all its devices within this time. */
const TOGETHER_MS = 500;

/** Checks gaps, windows, duplicates and the longest schedule, only by what arrived at the providers. */
export function judge(arrivals: readonly Arrival[], policy: Policy): Verdict {
  const alerts = alertsByRecipient(arrivals, policy.minGapMs);
  const gaps = [...alerts.values()].flatMap((times) => times.slice(1).map((at, index) => at - (times[index] ?? at)));
  const [firstRule] = policy.rules;
  return {
    gapViolations: gaps.filter((gap) => gap < policy.minGapMs - TOLERANCE_MS).length,
    windowViolations: [...alerts.values()].reduce((sum, times) => sum + windowViolations(times, policy), 0),
    duplicates: countDuplicates(arrivals),
    minGapMs: gaps.length === 0 ? null : round(Math.min(...gaps)),
    maxInWindow: firstRule
      ? Math.max(0, ...[...alerts.values()].map((times) => mostWithin(times, firstRule.perMs)))
      : 0,
    ...longestSchedule([...alerts.values()], policy),
  };
}

/**
 * The instants at which each recipient was alerted, in order. Arrivals of one notification at several devices are one
 * alert; an arrival half a gap or more after the first is another one (a device that was retried). Without a gap, half a second.
 */
export function alertsByRecipient(arrivals: readonly Arrival[], minGapMs: number): Map<string, number[]> {
  const byRecipient = Map.groupBy(arrivals, ({ recipientId }) => recipientId);
  return new Map(
    [...byRecipient].map(([recipientId, own]) => [
      recipientId,
      alertTimes(own, minGapMs === 0 ? TOGETHER_MS : minGapMs / 2),
    ]),
  );
}

function alertTimes(arrivals: readonly Arrival[], togetherMs: number): number[] {
  const times: number[] = [];
  const lastOf = new Map<string, number>();
  for (const { notificationId, at } of arrivals.toSorted((a, b) => a.at - b.at)) {
    const last = lastOf.get(notificationId);
    if (last !== undefined && at - last < togetherMs) continue;
    lastOf.set(notificationId, at);
    times.push(at);
  }
  return times;
}

/** Alerts that came too early after the one `max` places before them, for every rule. */
function windowViolations(times: readonly number[], { rules }: Policy): number {
  return rules.reduce((sum, { max, perMs }) => {
    const early = times.filter((at, index) => index >= max && at - (times[index - max] ?? 0) < perMs - TOLERANCE_MS);
    return sum + early.length;
  }, 0);
}

function mostWithin(times: readonly number[], perMs: number): number {
  let first = 0;
  return times.reduce((most, at, index) => {
    while (at - (times[first] ?? at) >= perMs - TOLERANCE_MS) first += 1;
    return Math.max(most, index - first + 1);
  }, 0);
}

function countDuplicates(arrivals: readonly Arrival[]): number {
  return arrivals.length - new Set(arrivals.map(({ notificationId, device }) => `${notificationId} ${device}`)).size;
}

function longestSchedule(schedules: readonly (readonly number[])[], policy: Policy) {
  const longest = schedules.toSorted((a, b) => b.length - a.length)[0] ?? [];
  const makespanMs = (longest.at(-1) ?? 0) - (longest[0] ?? 0);
  const idealMakespanMs = idealMakespan(longest.length, policy);
  return {
    makespanMs: round(makespanMs),
    idealMakespanMs,
    makespanRatio: idealMakespanMs === 0 ? 1 : Math.round((makespanMs / idealMakespanMs) * 10_000) / 10_000,
  };
}

/** The time from the first alert to the last if each is sent at the earliest instant that the policy allows. */
export function idealMakespan(count: number, policy: Policy): number {
  return idealSchedule(count, policy).at(-1) ?? 0;
}

/** The earliest instants that the policy allows for `count` alerts to one recipient, in milliseconds after the first. */
export function idealSchedule(count: number, { rules, minGapMs }: Policy): number[] {
  const times: number[] = [];
  for (let index = 0; index < count; index++) {
    const bounds = rules.map(({ max, perMs }) => (times[index - max] ?? -perMs) + perMs);
    times.push(Math.max(0, (times.at(-1) ?? -minGapMs) + minGapMs, ...bounds));
  }
  return times;
}

function round(ms: number): number {
  return Math.round(ms * 10) / 10;
}
