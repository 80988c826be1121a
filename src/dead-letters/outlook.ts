import { valueAt } from '../domain/json.ts';
import type { Policy } from '../domain/limits.ts';
import type { DeadLetterReason } from '../notification/outcome.ts';
import { instantOf } from '../domain/time.ts';
import type { StoredDeadLetter } from './letter.ts';
import { countIn, type Choice, type ReasonCounts, type DeadLetterShards, walkChosen } from './take.ts';

export interface ReplayTerms {
  /** How many are replayed in a second; Infinity: without a pause. */
  readonly perSecond: number;
  /** The overall limits of each recipient. */
  readonly policy: Policy;
  /** When the replay begins: epoch milliseconds. */
  readonly now: number;
}

/** What a replay of these dead letters would lead to. */
export interface Forecast {
  readonly count: number;
  readonly recipients: number;
  /** The recipient with the most dead letters (the first of several). Absent if no dead letter names a recipient. */
  readonly busiest?: { readonly recipientId: string; readonly count: number };
  /** About how many will have expired before they are replayed. They are not sent. */
  readonly expired: number;
  /** About how long after the beginning of the replay the last alert is sent; absent if none is sent. */
  readonly lastAfterMs?: number;
}

export interface Outlook {
  add(stored: StoredDeadLetter): void;
  forecast(): Forecast;
}

/**
 * Counts to how many recipients a replay goes, and estimates when its last alert would be sent: each recipient's alerts follow
 * one another as closely as the policy allows. The estimate ignores what waits for a recipient already, limits of a recipient
 * or a category, quiet hours and quotas, which all make it later; background pushes may be sent sooner.
 */
export function createOutlook({ perSecond, policy, now }: ReplayTerms): Outlook {
  /** By recipient: when the alerts are sent, in milliseconds after the beginning. */
  const schedules = new Map<string, number[]>();
  const counts = new Map<string, number>();
  let [count, expired, lastAfterMs] = [0, 0, 0];

  return {
    add({ letter: { notification } }) {
      const recipientId = valueAt(notification, 'recipientId');
      const replayedMs = (count++ * 1_000) / perSecond;
      const id = typeof recipientId === 'string' ? recipientId : ''; // no recipient has the empty name: it is not counted
      if (id !== '') counts.set(id, (counts.get(id) ?? 0) + 1);
      const schedule = schedules.get(id) ?? [];
      const sendAfter = instantOf(valueAt(notification, 'sendAfter')) ?? now;
      const at = earliestMs(schedule, policy, Math.max(replayedMs, sendAfter - now));
      if ((instantOf(valueAt(notification, 'expiresAt')) ?? Infinity) <= now + at) {
        expired += 1;
        return;
      }
      schedule.push(at);
      schedules.set(id, schedule);
      lastAfterMs = Math.max(lastAfterMs, at);
    },
    forecast() {
      const [recipientId, most] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0]);
      return {
        count,
        recipients: counts.size,
        ...(most > 0 && { busiest: { recipientId, count: most } }),
        expired,
        ...(expired < count && { lastAfterMs: Math.round(lastAfterMs) }),
      };
    },
  };
}

/** The earliest instant, `at` or later, at which the policy allows one more alert. */
function earliestMs(schedule: readonly number[], { rules, minGapMs }: Policy, at: number): number {
  const bounds = rules.map(({ max, perMs }) => (schedule.at(-max) ?? -Infinity) + perMs);
  return Math.max(at, (schedule.at(-1) ?? -Infinity) + minGapMs, ...bounds);
}

/** What a run would do, before it begins. */
export interface Preview extends Forecast {
  readonly byReason: ReasonCounts;
  /** How many were chosen but will be left, because a newer version wrote them. They are not counted in `count`. */
  readonly newer: number;
  /** False: the look took too long, and only the oldest ones are counted. */
  readonly isWhole: boolean;
}

/** Counts the chosen dead letters, and forecasts their replay. When `signal` fires, only those counted so far are included. */
export async function preview(
  shards: DeadLetterShards,
  choice: Choice,
  { signal, ...terms }: ReplayTerms & { readonly signal: AbortSignal },
): Promise<Preview> {
  const outlook = createOutlook(terms);
  const byReason = new Map<DeadLetterReason, number>();
  let newer = 0;
  for await (const found of walkChosen(shards, choice, { signal, onNewer: () => (newer += 1) })) {
    outlook.add(found);
    countIn(byReason, found.letter.reason);
  }
  return { ...outlook.forecast(), newer, byReason: Object.fromEntries(byReason), isWhole: !signal.aborted };
}
