import { judge } from '../../sandbox/judge.ts';
import { POLICY, type Burst } from './burst.ts';
import type { Run } from './run.ts';

/** What one alternative's arrivals say. All of it is counted at the providers, but the passes, which are counted in the queue. */
export interface Figures {
  /** The most alerts to one recipient within any gap less the judge's tolerance (1 is allowed), and within any window of the rule. */
  readonly mostInGap: number;
  readonly mostInWindow: number;
  readonly gapViolations: number;
  readonly windowViolations: number;
  /** How often a worker took a job, for each job. */
  readonly passesPerJob: number;
  /** The busy recipient: from the first alert to the last, and this over the shortest that the limits allow. */
  readonly busyMs: number;
  readonly busyOverIdeal: number;
  /** Alerts to the busy recipient that came after one that was enqueued later. */
  readonly outOfOrder: number;
  /** The other recipients: from the enqueuing to the arrival. */
  readonly othersMedianMs: number;
  readonly othersWorstMs: number;
  readonly duplicates: number;
  /** Enqueued, and never arrived. */
  readonly lost: number;
}

export function figuresOf({ arrivals, enqueuedAt, passes }: Run, { busy, others }: Burst): Figures {
  const verdict = judge(arrivals, POLICY);
  const { maxInWindow: mostInGap } = judge(arrivals, { rules: [{ max: 1, perMs: POLICY.minGapMs }], minGapMs: 0 });
  const arrived = new Set(arrivals.map(({ notificationId }) => notificationId));
  const all = [...busy, ...others];
  const otherIds = new Set(others.map(({ id }) => id));
  const delays = arrivals.filter(({ notificationId }) => otherIds.has(notificationId)).map(({ at }) => at - enqueuedAt);
  const sorted = delays.toSorted((a, b) => a - b);
  return {
    mostInGap,
    mostInWindow: verdict.maxInWindow,
    gapViolations: verdict.gapViolations,
    windowViolations: verdict.windowViolations,
    passesPerJob: passes / all.length,
    busyMs: verdict.makespanMs,
    busyOverIdeal: verdict.makespanRatio,
    outOfOrder: outOfOrder({ arrivals, busy }),
    othersMedianMs: sorted[Math.floor(sorted.length / 2)] ?? NaN,
    othersWorstMs: sorted.at(-1) ?? NaN,
    duplicates: verdict.duplicates,
    lost: all.filter(({ id }) => !arrived.has(id)).length,
  };
}

function outOfOrder({ arrivals, busy }: Pick<Run, 'arrivals'> & Pick<Burst, 'busy'>): number {
  const placeOf = new Map(busy.map(({ id }, place) => [id, place]));
  const places = arrivals
    .toSorted((a, b) => a.at - b.at)
    .flatMap(({ notificationId }) => placeOf.get(notificationId) ?? []);
  let latest = -1;
  return places.filter((place) => {
    const isLate = place < latest;
    latest = Math.max(latest, place);
    return isLate;
  }).length;
}
