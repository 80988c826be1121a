import type { Policy } from '../../../src/domain/limits.ts';
import { GAP, judge, violationsOf, type Arrival, type Violation } from '../../../src/sandbox/judge.ts';
import type { Enqueued } from '../run/enqueue.ts';
import type { Stall } from '../../support/delays.ts';
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
  /** Broken gaps and windows whose first alert arrived late because the machine stood still. */
  readonly lateAfterStall: number;
  /** How many background pushes devices got. */
  readonly backgroundPushes: number;
  /** The least time between two alerts of one recipient; null if no recipient had two. */
  readonly minGapMs: number | null;
  /** Violations without an excuse: `recipient-7: 5/4s, 3812 ms at 2026-03-01T07:30:00.123Z`. */
  readonly bursts: readonly string[];
  /** Those that a freeze explains. */
  readonly burstsAfterFreeze: readonly string[];
  /** Those that a stall of the machine explains. */
  readonly burstsAfterStall: readonly string[];
}

/** Reasons why alerts may leave or arrive late. */
export interface Excuses {
  readonly thaws: readonly Thaw[];
  readonly stalls: readonly Stall[];
}

export interface Policies {
  readonly policy: Policy;
  /** By category, beside the other one. */
  readonly categories: Readonly<Record<string, Policy>>;
  /** Of background pushes, which count nowhere else. */
  readonly background: Policy;
}

/** How late a worker may send without telling the limiter: ON_TIME_MS of src/delivery/slot.ts. */
const OWN_LATENESS_MS = 15;
/** A request that was written to a socket when the machine stopped arrives within this time after it went on. */
const AFTER_STALL_MS = 50;

/** Checks gaps and windows of the arrivals: of alerts, overall and in each category with limits of its own; of background pushes. */
export function judgePacing(
  enqueued: ReadonlyMap<string, Enqueued>,
  entries: readonly SeenEntry[],
  { policy, categories, background }: Policies,
  { thaws, stalls }: Excuses,
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
  const inTime = violations.filter((violation) => !isLate(violation));
  const afterStall = inTime.filter((violation) => stalls.some((stall) => explains(stall, violation)));
  const unexcused = inTime.filter((violation) => !afterStall.includes(violation));
  const gaps = unexcused.filter(({ name }) => name === GAP);
  const inHand = thaws.flatMap(({ ids }) => [...ids]);
  return {
    gapViolations: gaps.length,
    windowViolations: unexcused.length - gaps.length,
    lateAfterFreeze: afterFreeze.length,
    lateAfterFreezeBound: inHand.reduce((sum, id) => sum + (enqueued.get(id)?.input?.devices.length ?? 0), 0),
    lateAfterStall: afterStall.length,
    backgroundPushes: pushes.length,
    minGapMs: judge(held, policy).minGapMs,
    bursts: unexcused.map(textOf),
    burstsAfterFreeze: afterFreeze.map(textOf),
    burstsAfterStall: afterStall.map(textOf),
  };
}

/** The first alert arrived just after the machine had stood still, for long enough to make it late by what is missing. */
function explains({ at, ms }: Stall, { times: [first = NaN], shortMs }: Violation): boolean {
  return first >= at - ms && first <= at + AFTER_STALL_MS && ms >= shortMs - OWN_LATENESS_MS;
}

/** Arrivals that left a worker when it went on after a freeze, as `recipient instant`. */
function lateArrivals(arrivals: readonly Arrival[], thaws: readonly Thaw[]): ReadonlySet<string> {
  const late = arrivals.filter(({ notificationId, at }) =>
    thaws.some(({ ids, from, until }) => ids.has(notificationId) && at >= from && at <= until),
  );
  return new Set(late.map(({ recipientId, at }) => `${recipientId} ${at}`));
}

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
