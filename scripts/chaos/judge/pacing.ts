import type { Policy } from '../../../src/domain/limits.ts';
import { GAP, judge, violationsOf, type Arrival, type Violation } from '../../../src/sandbox/judge.ts';
import type { Enqueued } from '../run/enqueue.ts';
import type { SeenEntry } from '../../support/providers-child.ts';
import { shownOf, type Shown } from '../../support/shown.ts';
import type { Thaw } from '../run/freezes.ts';
import { refOf } from '../plan/workload.ts';

export interface Pacing {
  readonly gapViolations: number;
  readonly windowViolations: number;
  /** Broken gaps and windows with an alert that a frozen worker sent when it went on. */
  readonly lateAfterFreeze: number;
  /** How many alerts may have left late: the devices of all jobs that frozen workers had. */
  readonly lateAfterFreezeBound: number;
  /** Gaps and windows that look broken at the provider, but are not by every instant at which the alerts may have left. */
  readonly lateAfterStall: number;
  /** How many background pushes devices got. */
  readonly backgroundPushes: number;
  /** The least time between two alerts of one recipient; null if no recipient had two. */
  readonly minGapMs: number | null;
  /** Violations without an excuse: `recipient-7: 5/4s, 3812 ms at 2026-03-01T07:30:00.123Z`. */
  readonly bursts: readonly string[];
  /** Those that a freeze explains. */
  readonly burstsAfterFreeze: readonly string[];
  /** Those that only look broken. */
  readonly burstsAfterStall: readonly string[];
}

export interface Policies {
  readonly policy: Policy;
  /** By category, beside the other one. */
  readonly categories: Readonly<Record<string, Policy>>;
  /** Of background pushes, which count nowhere else. */
  readonly background: Policy;
}

/** Checks gaps and windows of the arrivals: of alerts, overall and in each category with limits of its own; of background pushes. */
export function judgePacing(
  enqueued: ReadonlyMap<string, Enqueued>,
  entries: readonly SeenEntry[],
  { policy, categories, background }: Policies,
  thaws: readonly Thaw[],
): Pacing {
  const arrivals = arrivalsOf(enqueued, entries, 'alert');
  const pushes = arrivalsOf(enqueued, entries, 'nothing');
  const categoryOf = ({ notificationId }: Arrival) => enqueued.get(notificationId)?.input?.category;
  const own = Object.entries(categories).map(([category, itsPolicy]) => ({
    policy: itsPolicy,
    arrivals: arrivals.filter((arrival) => categoryOf(arrival) === category),
  }));
  const held = arrivals.filter((arrival) => categoryOf(arrival) !== 'urgent'); // for those the overall limits do not hold
  const all = [{ policy, arrivals: held }, ...own, { policy: background, arrivals: pushes }];
  const violations = all.flatMap((one) => violationsOf(one.arrivals, one.policy));
  const late = lateArrivals([...arrivals, ...pushes], thaws);
  const isLate = ({ recipientId, times }: Violation) => times.some((at) => late.has(`${recipientId} ${at}`));
  const afterFreeze = violations.filter(isLate);
  const unexcused = violations.filter((violation) => !isLate(violation));
  const asSeen = all.flatMap((one) => violationsOf(one.arrivals.map(withoutDelay), one.policy));
  const isBroken = new Set(violations.map(nameOf));
  const underWay = asSeen.filter((violation) => !isBroken.has(nameOf(violation)));
  const gaps = unexcused.filter(({ name }) => name === GAP);
  const inHand = thaws.flatMap(({ ids }) => [...ids]);
  return {
    gapViolations: gaps.length,
    windowViolations: unexcused.length - gaps.length,
    lateAfterFreeze: afterFreeze.length,
    lateAfterFreezeBound: inHand.reduce((sum, id) => sum + (enqueued.get(id)?.input?.devices.length ?? 0), 0),
    lateAfterStall: underWay.length,
    backgroundPushes: pushes.length,
    minGapMs: judge(held, policy).minGapMs,
    bursts: unexcused.map(textOf),
    burstsAfterFreeze: afterFreeze.map(textOf),
    burstsAfterStall: underWay.map(textOf),
  };
}

/** Arrivals that left a worker when it went on after a freeze, as `recipient instant`. */
function lateArrivals(arrivals: readonly Arrival[], thaws: readonly Thaw[]): ReadonlySet<string> {
  const late = arrivals.filter(({ notificationId, at }) =>
    thaws.some(({ ids, from, until }) => ids.has(notificationId) && at >= from && at <= until),
  );
  return new Set(late.map(({ recipientId, at }) => `${recipientId} ${at}`));
}

const withoutDelay = (arrival: Arrival): Arrival => ({ ...arrival, delayMs: 0 });
const nameOf = ({ recipientId, name, times }: Violation): string => `${recipientId} ${name} ${times.at(-1)}`;

function textOf({ recipientId, name, times }: Violation): string {
  const first = times[0] ?? NaN;
  const last = times.at(-1) ?? NaN;
  return `${recipientId}: ${name}, ${Math.round(last - first)} ms at ${new Date(last).toISOString()}`;
}

/** What devices got of one kind. A silent alert takes no slot of any limiter, so it is judged with neither. */
function arrivalsOf(enqueued: ReadonlyMap<string, Enqueued>, entries: readonly SeenEntry[], shown: Shown): Arrival[] {
  return entries
    .filter((entry) => entry.accepted && shownOf(entry) === shown)
    .map(({ data, token, at, delayMs }) => ({
      recipientId: enqueued.get(refOf(data))?.input?.recipientId ?? 'of nobody who was enqueued for',
      notificationId: refOf(data),
      device: token,
      at,
      delayMs,
    }));
}
