import { ruleName, type Policy } from '../../../src/domain/limits.ts';
import { alertsByRecipient, idealSchedule, TOLERANCE_MS, type Arrival } from '../../../src/sandbox/judge.ts';
import type { DemoResult, Refusal } from '../counts.ts';
import type { Morning } from '../morning.ts';
import type { DemoDeadLetter } from '../queue.ts';
import type { Check } from '../verdict.ts';

/** What the demo found; the report is made from this alone. */
export interface Findings {
  readonly policy: Policy;
  readonly result: DemoResult;
  readonly promises: readonly Check[];
  /** What depends on the machine. */
  readonly machine: readonly Check[];
  readonly letters: readonly DemoDeadLetter[];
  /** The alerts that the providers accepted, on the clock of `enqueuedAt`. */
  readonly arrivals: readonly Arrival[];
  readonly refusals: readonly Refusal[];
  /** Ids of notifications. */
  readonly expired: readonly string[];
  /** Without the background pushes. */
  readonly morning: Pick<Morning, 'valid' | 'malformed'>;
  /** When the producer began to enqueue: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** How long the producer took to enqueue all of them. */
  readonly enqueuingMs: number;
  /** The longest time for which the machine stood still. */
  readonly longestStallMs: number;
}

/** One recipient's part of the report. All instants are milliseconds after `enqueuedAt`. */
export interface Teacher {
  readonly recipientId: string;
  readonly enqueued: number;
  readonly alerts: readonly { readonly id: string; readonly atMs: number }[];
  /** Refused requests that alerted nobody; they use up the windows as well. */
  readonly refused: readonly { readonly id: string; readonly atMs: number; readonly answer: string }[];
  /** When each of the alerts could have come at the earliest, counted from the first. */
  readonly idealMs: readonly number[];
  /** When the next alert had to wait longer than the gap, because a window had its max. */
  readonly full: readonly { readonly fromMs: number; readonly toMs: number; readonly rule: string }[];
  readonly leastGapMs: number | undefined;
  readonly deadLetters: number;
  readonly expired: number;
}

/** Every recipient of the morning, those with most notifications first. */
export function teachersOf(findings: Findings): Teacher[] {
  const { policy, arrivals, refusals, morning, letters, expired, enqueuedAt } = findings;
  const recipientOf = new Map([
    ...morning.malformed.map(({ id }) => [id, letters.find((letter) => letter.id === id)?.recipientId] as const),
    ...morning.valid.map(({ id, recipientId }) => [id, recipientId] as const),
  ]);
  const alertsOf = alertsByRecipient(arrivals, policy.minGapMs);
  const usedBy = alertsByRecipient([...arrivals, ...refusals], policy.minGapMs);
  const idOf = new Map(arrivals.map(({ recipientId, at, notificationId }) => [`${recipientId} ${at}`, notificationId]));
  const counted = (ids: readonly string[], recipientId: string): number =>
    ids.filter((id) => recipientOf.get(id) === recipientId).length;
  const deadIds = letters.map(({ id }) => id);
  const names = new Set([...recipientOf.values()].filter((name) => name != null));
  const teachers = [...names].map((recipientId): Teacher => {
    const own = alertsOf.get(recipientId) ?? [];
    const times = own.map(({ at }) => at);
    const timesMs = times.map((at) => at - enqueuedAt);
    const [firstMs = 0] = timesMs;
    const gaps = own.slice(1).map(({ at }, index) => at - (own[index]?.earliestAt ?? at));
    return {
      recipientId,
      enqueued: counted([...recipientOf.keys()], recipientId),
      alerts: times.map((at) => ({ id: idOf.get(`${recipientId} ${at}`) ?? '', atMs: at - enqueuedAt })),
      refused: refusals
        .filter((refusal) => refusal.recipientId === recipientId && !isBesideAlert(refusal, arrivals, policy))
        .map(({ notificationId, at, answer }) => ({ id: notificationId, atMs: at - enqueuedAt, answer })),
      idealMs: idealSchedule(times.length, policy).map((ms) => firstMs + ms),
      full: fullWindows(
        (usedBy.get(recipientId) ?? []).map(({ at }) => at - enqueuedAt),
        policy,
      ),
      leastGapMs: gaps.length === 0 ? undefined : Math.min(...gaps),
      deadLetters: counted(deadIds, recipientId),
      expired: counted(expired, recipientId),
    };
  });
  return teachers.toSorted((a, b) => b.enqueued - a.enqueued || a.recipientId.localeCompare(b.recipientId));
}

/** Whether another device got the same notification at about the same time: then it is part of that alert. */
function isBesideAlert(refusal: Refusal, arrivals: readonly Arrival[], { minGapMs }: Policy): boolean {
  const { notificationId, recipientId, at } = refusal;
  return arrivals.some(
    (arrival) =>
      arrival.notificationId === notificationId &&
      arrival.recipientId === recipientId &&
      Math.abs(arrival.at - at) < minGapMs / 2,
  );
}

/**
 * From an alert that fills a window until the next alert, where the window makes it wait longer than the gap would. Which rule it
 * was is known from when the next one came. After the last alert nothing waits.
 */
function fullWindows(timesMs: readonly number[], { rules, minGapMs }: Policy): Teacher['full'] {
  return timesMs.slice(0, -1).flatMap((fromMs, index) => {
    const nextMs = timesMs[index + 1] ?? fromMs;
    const ends = rules.flatMap((rule) => {
      const endMs = (timesMs[index + 1 - rule.max] ?? -Infinity) + rule.perMs;
      return endMs - fromMs > minGapMs + TOLERANCE_MS ? [{ endMs, rule: ruleName(rule) }] : [];
    });
    const [closest] = ends.toSorted((a, b) => Math.abs(a.endMs - nextMs) - Math.abs(b.endMs - nextMs));
    return closest === undefined ? [] : [{ fromMs, toMs: Math.min(closest.endMs, nextMs), rule: closest.rule }];
  });
}
