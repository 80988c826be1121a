import { ruleName, type Policy } from '../../src/domain/limits.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import { alertsByRecipient, judge, TOLERANCE_MS, type Arrival } from '../../src/sandbox/judge.ts';
import type { Enqueued } from './enqueue.ts';
import { refOf } from './workload.ts';

export interface Pacing {
  readonly gapViolations: number;
  readonly windowViolations: number;
  /** The least time between two alerts of one recipient; null where nobody had two. */
  readonly minGapMs: number | null;
  /** Whom it burst upon: `recipient-7: 5/4s, 3812 ms at 2026-03-01T07:30:00.123Z`. */
  readonly bursts: readonly string[];
}

export interface Policies {
  readonly policy: Policy;
  /** By category, beside the other one. */
  readonly categories: Readonly<Record<string, Policy>>;
}

/** Judges the gaps and windows of what arrived, over all and in each category that has limits of its own. */
export function judgePacing(
  enqueued: ReadonlyMap<string, Enqueued>,
  entries: readonly JournalEntry[],
  { policy, categories }: Policies,
): Pacing {
  const arrivals = arrivalsOf(enqueued, entries);
  const categoryOf = ({ notificationId }: Arrival) => enqueued.get(notificationId)?.input?.category;
  const own = Object.entries(categories).map(([category, itsPolicy]) => ({
    policy: itsPolicy,
    arrivals: arrivals.filter((arrival) => categoryOf(arrival) === category),
  }));
  const cases = [{ policy, arrivals }, ...own];
  const verdicts = cases.map((one) => judge(one.arrivals, one.policy));
  return {
    gapViolations: verdicts.reduce((sum, { gapViolations }) => sum + gapViolations, 0),
    windowViolations: verdicts.reduce((sum, { windowViolations }) => sum + windowViolations, 0),
    minGapMs: verdicts[0]?.minGapMs ?? null,
    bursts: cases.flatMap((one) => burstsOf(one.arrivals, one.policy)),
  };
}

/** What the judge counts, by name. */
function burstsOf(arrivals: readonly Arrival[], { rules, minGapMs }: Policy): string[] {
  const all = [...rules.map((rule) => ({ ...rule, name: ruleName(rule) })), { max: 1, perMs: minGapMs, name: 'gap' }];
  return [...alertsByRecipient(arrivals, minGapMs)].flatMap(([recipientId, times]) =>
    all.flatMap(({ max, perMs, name }) =>
      times.flatMap((at, index) => {
        const tookMs = at - (times[index - max] ?? -Infinity);
        const instant = new Date(at).toISOString();
        return tookMs < perMs - TOLERANCE_MS ? [`${recipientId}: ${name}, ${Math.round(tookMs)} ms at ${instant}`] : [];
      }),
    ),
  );
}

/** What alerted somebody. A silent one takes no slot of the limiter, and is none. */
function arrivalsOf(enqueued: ReadonlyMap<string, Enqueued>, entries: readonly JournalEntry[]): Arrival[] {
  return entries
    .filter((entry) => entry.accepted && !isSilent(entry))
    .map(({ data, token, at }) => ({
      recipientId: enqueued.get(refOf(data))?.input?.recipientId ?? 'of nobody who was enqueued for',
      notificationId: refOf(data),
      device: token,
      at,
    }));
}

/** Shown without sound, vibration and banner, as what arrived says: APNs' level `passive`, FCM's low priority. */
function isSilent({ platform, payload }: JournalEntry): boolean {
  if (platform === 'apns') return field(field(payload, 'aps'), 'interruption-level') === 'passive';
  return field(field(field(payload, 'android'), 'notification'), 'notification_priority') === 'PRIORITY_LOW';
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
