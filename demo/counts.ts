import { shownOf, type Shown } from '../sandbox/journal.ts';
import { alertsByRecipient, judge, type Arrival, type Verdict } from '../sandbox/judge.ts';
import type { Policy } from '../src/domain/limits.ts';
import type { SeenEntry } from './providers-child.ts';
import type { Lateness } from './replicas.ts';

/** How the jobs ended, read from the queue. */
export interface Endings {
  /** Completed jobs: the notification, the outcome that the worker returned, and the number of requeues. */
  readonly completed: readonly { readonly id: string; readonly outcome: string; readonly requeues: number }[];
  readonly deadLettered: readonly string[];
}

/** Of alerts, and of background pushes: each has its own. */
interface AlertsAndPushes<T> {
  readonly alerts: T;
  readonly pushes: T;
}

/** How many of the notifications ended how, without their own alert. */
export interface WaitingCounts {
  readonly dropped: number;
  readonly superseded: number;
  readonly merged: number;
  readonly canceled: number;
}

/** What devices got. A silent alert takes no slot, so no limit counts it. */
export interface Arrivals extends AlertsAndPushes<readonly Arrival[]> {
  readonly silent: readonly Arrival[];
}

/** A request for an alert that a provider refused. */
export interface Refusal extends Arrival {
  /** `503 ServiceUnavailable` */
  readonly answer: string;
}

/** The demo's result: all of it counted from what the providers received, from the queue, and from the workers' metrics. */
export interface DemoResult extends Verdict, WaitingCounts, WorkersCounts {
  readonly notifications: number;
  readonly delivered: number;
  readonly deadLettered: number;
  readonly expired: number;
  readonly lost: number;
  readonly requeues: number;
  /** Notifications that were put back at least once. */
  readonly blocked: number;
  readonly requeuesPerBlocked: number;
  /** How many the recipient with the most alerts got. */
  readonly alertsOfBusiest: number;
  /** Of that recipient: how often notifications were put back that had been put back before. */
  readonly moreRequeuesOfBusiest: number;
  /** Background pushes among the delivered notifications. */
  readonly backgroundPushes: number;
  /** Those beyond `max` in a window of their own limit. */
  readonly backgroundViolations: number;
  /** For how long an alert may have been under way, at the most: its worker or the providers' process did not run. */
  readonly mostDelayMs: number;
}

/** What the workers' metrics and logs say. */
interface WorkersCounts extends Lateness {
  /** The limiter's late tolerance. */
  readonly lateToleranceMs: number;
  /** How often a worker could not run for longer than a send may be late. */
  readonly standstills: number;
  /** How many still run. */
  readonly workers: number;
}

/** What the providers accepted, with the recipients. */
export function arrivalsOf(entries: readonly SeenEntry[], recipientOf: ReadonlyMap<string, string>): Arrivals {
  const accepted = entries.filter((entry) => entry.accepted);
  const arrived = Object.groupBy(accepted, shownOf);
  const of = (shown: Shown): Arrival[] => (arrived[shown] ?? []).map((entry) => arrivalOf(entry, recipientOf));
  return { alerts: of('alert'), silent: of('silent'), pushes: of('nothing') };
}

export function refusalsOf(entries: readonly SeenEntry[], recipientOf: ReadonlyMap<string, string>): Refusal[] {
  const refused = entries.filter((entry) => !entry.accepted && shownOf(entry) !== 'nothing');
  return refused.map((entry) => ({
    ...arrivalOf(entry, recipientOf),
    answer: `${entry.status ?? 'no answer'} ${entry.reason ?? ''}`.trim(),
  }));
}

function arrivalOf({ token, data, at, delayMs }: SeenEntry, recipientOf: ReadonlyMap<string, string>): Arrival {
  return {
    recipientId: recipientOf.get(token) ?? 'the owner of an unknown token',
    notificationId: data['ref'] ?? '',
    device: token,
    at,
    delayMs,
  };
}

/** `ids` are the notifications that were enqueued. */
export function countResult(
  ids: readonly string[],
  { alerts, silent, pushes }: Arrivals,
  endings: Endings,
  policies: AlertsAndPushes<Policy>,
  workers: WorkersCounts,
): DemoResult {
  const { completed, deadLettered } = endings;
  const ofAlerts = judge(alerts, policies.alerts);
  const ofPushes = judge(pushes, policies.pushes);
  const delivered = new Set([...alerts, ...silent, ...pushes].map(({ notificationId }) => notificationId));
  const undelivered = completed.filter(({ outcome }) => outcome !== 'delivered').map(({ id }) => id);
  const accounted = new Set([...delivered, ...deadLettered, ...undelivered]);
  const blocked = completed.filter(({ requeues }) => requeues > 0);
  const requeues = blocked.reduce((sum, job) => sum + job.requeues, 0);
  const ofBusiest = idsOfBusiest(alerts);
  const ended = (name: string): number => completed.filter(({ outcome }) => outcome === name).length;
  return {
    notifications: ids.length,
    delivered: delivered.size,
    deadLettered: deadLettered.length,
    expired: ended('expired'),
    dropped: ended('dropped'),
    superseded: ended('superseded'),
    merged: ended('merged'),
    canceled: ended('canceled'),
    lost: ids.filter((id) => !accounted.has(id)).length,
    ...ofAlerts,
    duplicates: ofAlerts.duplicates + ofPushes.duplicates,
    requeues,
    blocked: blocked.length,
    requeuesPerBlocked: blocked.length === 0 ? 0 : Math.round((requeues / blocked.length) * 1000) / 1000,
    alertsOfBusiest: Math.max(
      0,
      ...[...alertsByRecipient(alerts, policies.alerts.minGapMs).values()].map(({ length }) => length),
    ),
    moreRequeuesOfBusiest: blocked
      .filter(({ id }) => ofBusiest.has(id))
      .reduce((sum, job) => sum + job.requeues - 1, 0),
    backgroundPushes: new Set(pushes.map(({ notificationId }) => notificationId)).size,
    backgroundViolations: ofPushes.windowViolations,
    mostDelayMs: Math.round(Math.max(0, ...[...alerts, ...pushes].map(({ delayMs = 0 }) => delayMs))),
    ...workers,
  };
}

function idsOfBusiest(alerts: readonly Arrival[]): ReadonlySet<string> {
  const byRecipient = Map.groupBy(alerts, ({ recipientId }) => recipientId);
  const sets = [...byRecipient.values()].map((own) => new Set(own.map(({ notificationId }) => notificationId)));
  return sets.toSorted((a, b) => b.size - a.size)[0] ?? new Set();
}
