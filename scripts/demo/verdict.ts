import { judge, type Arrival, type Verdict } from '../../src/sandbox/judge.ts';
import type { Policy } from '../../src/domain/limits.ts';

/** How the jobs ended, read from the queue. */
export interface Endings {
  /** Completed jobs: the notification, the outcome that the worker returned, and the number of requeues. */
  readonly completed: readonly { readonly id: string; readonly outcome: string; readonly requeues: number }[];
  readonly deadLettered: readonly string[];
}

/** Of alerts, and of background pushes: each has its own. */
export interface AlertsAndPushes<T> {
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

/** What devices got. A silent alert takes no slot, so no limit holds for it. */
export interface Arrivals extends AlertsAndPushes<readonly Arrival[]> {
  readonly silent: readonly Arrival[];
}

/** The demo's result: all of it counted from what the providers received and from the queue. */
export interface DemoResult extends Verdict, WaitingCounts {
  readonly notifications: number;
  readonly delivered: number;
  readonly deadLettered: number;
  readonly expired: number;
  readonly lost: number;
  readonly requeues: number;
  readonly requeuesPerBlocked: number;
  /** Background pushes among the delivered notifications. */
  readonly backgroundPushes: number;
  /** Those beyond `max` in a window of their own limit. */
  readonly backgroundViolations: number;
  readonly workers: number;
}

/** Counts from what the providers received and from the queue; `ids` are the notifications that were enqueued. */
export function countResult(
  ids: readonly string[],
  { alerts, silent, pushes }: Arrivals,
  endings: Endings,
  policies: AlertsAndPushes<Policy>,
  workers: number,
): DemoResult {
  const { completed, deadLettered } = endings;
  const ofAlerts = judge(alerts, policies.alerts);
  const ofPushes = judge(pushes, policies.pushes);
  const delivered = new Set([...alerts, ...silent, ...pushes].map(({ notificationId }) => notificationId));
  const expired = completed.filter(({ outcome }) => outcome === 'expired');
  const undelivered = completed.filter(({ outcome }) => outcome !== 'delivered').map(({ id }) => id);
  const accounted = new Set([...delivered, ...deadLettered, ...undelivered]);
  const blocked = completed.filter(({ requeues }) => requeues > 0);
  const requeues = blocked.reduce((sum, job) => sum + job.requeues, 0);
  return {
    notifications: ids.length,
    delivered: delivered.size,
    deadLettered: deadLettered.length,
    expired: expired.length,
    ...countWaiting(endings),
    lost: ids.filter((id) => !accounted.has(id)).length,
    ...ofAlerts,
    duplicates: ofAlerts.duplicates + ofPushes.duplicates,
    requeues,
    requeuesPerBlocked: blocked.length === 0 ? 0 : Math.round((requeues / blocked.length) * 1000) / 1000,
    backgroundPushes: new Set(pushes.map(({ notificationId }) => notificationId)).size,
    backgroundViolations: ofPushes.windowViolations,
    workers,
  };
}

function countWaiting({ completed }: Endings): WaitingCounts {
  const count = (name: string): number => completed.filter(({ outcome }) => outcome === name).length;
  const [dropped, superseded, merged, canceled] = ['dropped', 'superseded', 'merged', 'canceled'].map(count);
  return { dropped: dropped ?? 0, superseded: superseded ?? 0, merged: merged ?? 0, canceled: canceled ?? 0 };
}

export interface Check {
  readonly what: string;
  readonly found: string;
  readonly ok: boolean;
}

/** Each promise of the demo, with what was found. The demo fails if one does not hold. */
export function checks(result: DemoResult): Check[] {
  const exactly = (what: string, found: number, expected: number) => ({
    what,
    found: `${found} (expected ${expected})`,
    ok: found === expected,
  });
  const atMost = (what: string, found: number, most: number) => ({
    what,
    found: `${found} (at most ${most})`,
    ok: found <= most,
  });
  return [
    exactly('lost', result.lost, 0),
    exactly('duplicates', result.duplicates, 0),
    exactly('gap violations', result.gapViolations, 0),
    exactly('window violations', result.windowViolations, 0),
    {
      what: 'background pushes, and those over their own limit',
      found: `${result.backgroundPushes}, ${result.backgroundViolations} (expected 0)`,
      ok: result.backgroundPushes > 0 && result.backgroundViolations === 0,
    },
    atMost('requeues per blocked notification', result.requeuesPerBlocked, 1.05),
    atMost('makespan over ideal', result.makespanRatio, 1.03),
    exactly('workers', result.workers, 4),
    // A morning in which nothing was delivered or blocked would pass all of the above.
    {
      what: 'delivered, some of them after a wait',
      found: `${result.delivered}`,
      ok: result.delivered > 0 && result.requeues > 0,
    },
  ];
}
