import { ruleName, type Policy } from '../src/domain/limits.ts';

/** One alert that a provider accepted, as the journal has it. */
export interface Arrival {
  readonly recipientId: string;
  readonly notificationId: string;
  readonly device: string;
  /** When the provider's process saw it, milliseconds on one clock. */
  readonly at: number;
  /** How much earlier it may have left: some time between `at - delayMs` and `at`, by the processes' own measurements. Default: 0. */
  readonly delayMs?: number | undefined;
}

export interface Verdict {
  readonly gapViolations: number;
  readonly windowViolations: number;
  /** The same notification accepted more than once for the same device. */
  readonly duplicates: number;
  /** The least time between two alerts of one recipient, with the benefit of the doubt; null where no recipient had two. */
  readonly minGapMs: number | null;
  /** The most alerts of one recipient in any window of the first rule, with the benefit of the doubt. */
  readonly maxInWindow: number;
  /** Of the recipient with the longest ideal schedule: first accepted alert to last, as they were seen. */
  readonly makespanMs: number;
  readonly idealMakespanMs: number;
  readonly makespanRatio: number;
}

/**
 * One alert of a recipient, the k-th that was seen. The k-th that left did so no earlier than `earliestAt`, and no later than `at`:
 * `earliestAt` is the k-th of all instants that are possible at the earliest, so it does not matter in which order they left.
 */
export interface Alert {
  readonly at: number;
  readonly earliestAt: number;
}

/** One alert more than `max` in too short a time. */
export interface Violation {
  readonly recipientId: string;
  /** Of the rule; `gap`. */
  readonly name: string;
  /** The instants of the `max + 1` alerts, first to last. */
  readonly times: readonly number[];
  /** By how many milliseconds they came too close, with the benefit of the doubt. */
  readonly shortMs: number;
}

export const GAP = 'gap';
/**
 * Allowed between a slot and the provider's time stamp: a send may leave up to 25 ms late (src/delivery/slot.ts), and be under way
 * for 25 ms that no process can measure.
 */
export const TOLERANCE_MS = 50;
/** Without a gap, a worker sends a notification to all its devices within this time. */
const TOGETHER_MS = 500;

/**
 * Checks gaps, windows, duplicates and the longest schedule, only by what arrived at the providers. Alerts are too close only if
 * they are so by every instant at which they may have left.
 */
export function judge(arrivals: readonly Arrival[], policy: Policy): Verdict {
  const schedules = [...alertsByRecipient(arrivals, policy.minGapMs).values()];
  const gaps = schedules.flatMap((alerts) =>
    alerts.slice(1).map(({ at }, index) => at - (alerts[index]?.earliestAt ?? at)),
  );
  const violations = violationsOf(arrivals, policy);
  const ofGap = violations.filter(({ name }) => name === GAP).length;
  const [firstRule] = policy.rules;
  return {
    gapViolations: ofGap,
    windowViolations: violations.length - ofGap,
    duplicates: countDuplicates(arrivals),
    minGapMs: gaps.length === 0 ? null : round(Math.min(...gaps)),
    maxInWindow: firstRule ? Math.max(0, ...schedules.map((alerts) => mostWithin(alerts, firstRule.perMs))) : 0,
    ...longestSchedule(schedules, policy),
  };
}

/** The alerts that came too early after the one `max` places before them, for the gap and for every rule. */
export function violationsOf(arrivals: readonly Arrival[], { rules, minGapMs }: Policy): Violation[] {
  const limits = [...rules.map((rule) => ({ ...rule, name: ruleName(rule) })), { max: 1, perMs: minGapMs, name: GAP }];
  return [...alertsByRecipient(arrivals, minGapMs)].flatMap(([recipientId, alerts]) =>
    limits.flatMap(({ max, perMs, name }) =>
      alerts.flatMap(({ at }, index) => {
        const tookMs = at - (alerts[index - max]?.earliestAt ?? -Infinity);
        if (tookMs >= perMs - TOLERANCE_MS) return [];
        const times = alerts.slice(index - max, index + 1).map((alert) => alert.at);
        return [{ recipientId, name, times, shortMs: perMs - tookMs }];
      }),
    ),
  );
}

/**
 * The alerts of each recipient, in order. Arrivals of one notification at several devices are one alert; an arrival half a gap or
 * more after the first is another one (a device that was retried), unless it may have left earlier. Without a gap, half a second.
 */
export function alertsByRecipient(arrivals: readonly Arrival[], minGapMs: number): Map<string, Alert[]> {
  const byRecipient = Map.groupBy(arrivals, ({ recipientId }) => recipientId);
  const togetherMs = minGapMs === 0 ? TOGETHER_MS : minGapMs / 2;
  return new Map([...byRecipient].map(([recipientId, own]) => [recipientId, alertsOf(own, togetherMs)]));
}

function alertsOf(arrivals: readonly Arrival[], togetherMs: number): Alert[] {
  const alerts: { at: number; earliestAt: number }[] = [];
  const lastOf = new Map<string, { at: number; earliestAt: number }>();
  for (const { notificationId, at, delayMs = 0 } of arrivals.toSorted((a, b) => a.at - b.at)) {
    const last = lastOf.get(notificationId);
    if (last !== undefined && at - delayMs - last.at < togetherMs) {
      last.earliestAt = Math.min(last.earliestAt, at - delayMs);
      continue;
    }
    const alert = { at, earliestAt: at - delayMs };
    lastOf.set(notificationId, alert);
    alerts.push(alert);
  }
  const earliest = alerts.map(({ earliestAt }) => earliestAt).sort((a, b) => a - b);
  return alerts.map(({ at }, index) => ({ at, earliestAt: earliest[index] ?? at }));
}

function mostWithin(alerts: readonly Alert[], perMs: number): number {
  let first = 0;
  return alerts.reduce((most, { at }, index) => {
    while (at - (alerts[first]?.earliestAt ?? at) >= perMs - TOLERANCE_MS) first += 1;
    return Math.max(most, index - first + 1);
  }, 0);
}

function countDuplicates(arrivals: readonly Arrival[]): number {
  return arrivals.length - new Set(arrivals.map(({ notificationId, device }) => `${notificationId} ${device}`)).size;
}

function longestSchedule(schedules: readonly (readonly Alert[])[], policy: Policy) {
  const longest = schedules.toSorted((a, b) => b.length - a.length)[0] ?? [];
  const makespanMs = (longest.at(-1)?.at ?? 0) - (longest[0]?.at ?? 0);
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
