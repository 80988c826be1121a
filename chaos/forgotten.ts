import type { Redis } from 'ioredis';
import type { SeenEntry } from '../demo/providers-child.ts';
import { shownOf, type JournalEntry } from '../sandbox/journal.ts';
import { categoryKeys, entryOf, memberOf, recipientKeys } from '../src/limiter/redis/keys.ts';
import { shardOf } from '../src/queue/names.ts';
import { SHARDS, slotOfRecipient, slotOfShard, type Failover } from './cluster.ts';
import type { Incident } from './fleet.ts';
import type { Logs } from './logs.ts';
import type { Enqueued, Span } from './queue.ts';
import { POLICY, refOf } from './workload.ts';

/**
 * What a failover may have made Redis forget, because replication is asynchronous. Only what was written to the killed master after the
 * last write that its successor has can be excused by it; the run measures that instant (`Failover.keptUntil`).
 */

/** A failover, and what the successor lacked of the limiter's slots. */
export interface Forgetting extends Failover {
  /** Alerts that providers had, and whose slot the new master did not know, with the instant of their arrival. */
  readonly admissions: readonly { readonly id: string; readonly at: number }[];
}

/** How many of each kind replication lost. */
export interface ReplicationLost {
  /** Producers were told that they were added. */
  readonly notifications: number;
  /** Slots of alerts that providers had: their recipients might get alerts too close. */
  readonly admissions: number;
  /** Gaps and windows that these broke. */
  readonly violations: number;
  /** Second acceptances of notifications whose end was lost. */
  readonly ends: number;
  /** Joins of digests, places that a newer one took, and cancels: what waits together went otherwise than answered. */
  readonly waiting: number;
  /** The longest time before a kill of which writes may be lost, in whole milliseconds. */
  readonly windowMs: number;
}

/** Says of each trouble of a run whether a failover may be its cause. */
export interface Forgotten {
  /** It was added within the window before a kill, to a shard on that master. */
  notification(id: string): boolean;
  /** One of these alerts of the recipient, but the last, arrived with a slot from such a window. */
  slot(recipientId: string, times: readonly number[]): boolean;
  /** The end of the pass that sent this may be lost; `second` came after it. */
  end(first: Pick<JournalEntry, 'at' | 'data'>, second: Pick<JournalEntry, 'at'>): boolean;
  /**
   * What it joined, made way for, or whether it was canceled may be lost: its own pass or cancel, or one of its recipient's others. So
   * may a slot of theirs: a cancel that comes later does not know then that it was sent.
   */
  waiting(id: string): boolean;
}

/** A run without failovers. */
export const NOTHING: Forgotten = {
  notification: () => false,
  slot: () => false,
  end: () => false,
  waiting: () => false,
};

interface ForgottenParts {
  readonly failovers: readonly Forgetting[];
  readonly prefix: string;
  readonly enqueued: ReadonlyMap<string, Enqueued>;
  readonly logs: Logs;
  readonly canceledAt: ReadonlyMap<string, Span>;
  /** Workers waited for a replica after each admission, so that none may be lost. */
  readonly waits: boolean;
}

/** From the answer of Redis to what the run sees of it: an alert at a provider, a line in a log. */
const SEEN_WITHIN_MS = 500;

export function whatWasForgotten({ failovers, prefix, enqueued, logs, canceledAt, waits }: ForgottenParts): Forgotten {
  if (failovers.length === 0) return NOTHING;
  const recipientOf = (id: string): string | undefined => enqueued.get(id)?.input?.recipientId;
  const passes = new Map<string, number[]>();
  for (const { id, at } of [...logs.values()].flat()) {
    if (id !== undefined) passes.set(id, [...(passes.get(id) ?? []), at]);
  }
  const byRecipient = Map.groupBy(enqueued.keys(), (id) => recipientOf(id) ?? '');

  return {
    notification(id) {
      const { acknowledgedAt = -Infinity } = enqueued.get(id) ?? {};
      return failovers.some((one) => {
        return hasShard(one, prefix, recipientOf(id)) && acknowledgedAt >= one.keptUntil && acknowledgedAt <= one.until;
      });
    },
    slot(recipientId, times) {
      if (waits) return false;
      return failovers.some((one) => {
        const isIn = (at: number): boolean => at >= one.keptUntil && at <= one.at + SEEN_WITHIN_MS;
        return hasRecipient(one, recipientId) && times.slice(0, -1).some(isIn);
      });
    },
    end(first, second) {
      const id = refOf(first.data);
      return failovers.some((one) => {
        if (second.at <= one.at || first.at > one.at || !hasShard(one, prefix, recipientOf(id))) return false;
        // The line comes before the end is written.
        const ended = (passes.get(id) ?? []).filter((at) => at >= first.at);
        return first.at >= one.keptUntil || ended.some((at) => at >= one.keptUntil - SEEN_WITHIN_MS && at <= one.at);
      });
    },
    waiting(id) {
      const recipientId = recipientOf(id);
      return failovers.some((one) => {
        if (!hasRecipient(one, recipientId) && !hasShard(one, prefix, recipientId)) return false;
        const meets = ({ from, until }: Span): boolean =>
          until >= one.keptUntil - SEEN_WITHIN_MS && from <= one.at + SEEN_WITHIN_MS;
        // A cancel has several steps: its answer may come long after the failover.
        const wasCanceled = (other: string): boolean => meets(canceledAt.get(other) ?? { from: NaN, until: NaN });
        const others = byRecipient.get(recipientId ?? '') ?? [];
        if (one.admissions.some((lost) => others.includes(lost.id))) return true;
        return others.some(
          (other) => wasCanceled(other) || (passes.get(other) ?? []).some((at) => meets({ from: at, until: at })),
        );
      });
    },
  };
}

/** Workers had these when the master was killed: they were sent between the kill and the end of the failover. */
export function underWay(
  failovers: readonly Failover[],
  prefix: string,
  enqueued: ReadonlyMap<string, Enqueued>,
  entries: readonly JournalEntry[],
): Incident[] {
  return failovers.map((one) => {
    const during = entries.filter(({ at }) => at >= one.at && at <= one.until + SEEN_WITHIN_MS);
    const ids = during
      .map(({ data }) => refOf(data))
      .filter((id) => hasShard(one, prefix, enqueued.get(id)?.input?.recipientId));
    return { kind: 'redis', at: one.at, until: one.until, ids: new Set(ids) };
  });
}

function hasShard(failover: Failover, prefix: string, recipientId: string | undefined): boolean {
  return recipientId !== undefined && isIn(failover, slotOfShard(prefix, shardOf(recipientId, SHARDS)));
}

function hasRecipient(failover: Failover, recipientId: string | undefined): boolean {
  return recipientId !== undefined && isIn(failover, slotOfRecipient(recipientId));
}

export function isIn({ ranges }: Pick<Failover, 'ranges'>, slot: number): boolean {
  return ranges.some(([first, last]) => slot >= first && slot <= last);
}

/** Alerts that came so long before a kill are looked for, and all later ones. */
const LOOK_BACK_MS = 1_000;
/** Slots are kept for the longest window. A failover may take that long, and the look at the new master a second more. */
const KNOWN_FOR_MS = Math.max(...POLICY.rules.map(({ perMs }) => perMs)) - 1_000;
/** A notification asks under `id/0`, and under the next number after each send that failed. */
const ASKS = 10;

/**
 * Alerts of the last second before the kill, and later ones, whose slot the new master does not know. Called as soon as it answers:
 * later asks would put slots in their place. Alerts whose slots are not kept any more by then are left out, and so are those of the
 * category `urgent`, because their slots are kept for 3 s only.
 */
export async function missingAdmissions(
  failover: Failover,
  master: Redis,
  entries: readonly SeenEntry[],
  prefix: string,
  enqueued: ReadonlyMap<string, Enqueued>,
): Promise<Forgetting['admissions']> {
  const looked = entries.flatMap((entry) => {
    const input = enqueued.get(refOf(entry.data))?.input;
    const isCandidate =
      entry.accepted &&
      entry.at >= Math.min(failover.keptUntil, failover.at) - LOOK_BACK_MS &&
      entry.at <= failover.at + SEEN_WITHIN_MS &&
      entry.at >= failover.until - KNOWN_FOR_MS &&
      shownOf(entry) === 'alert' &&
      input !== undefined &&
      input.category !== 'urgent' &&
      hasRecipient(failover, input.recipientId);
    return isCandidate ? [{ id: input.id, at: entry.at, input }] : [];
  });
  const missing = await Promise.all(
    looked.map(async ({ id, at, input: { recipientId, category } }) => {
      const keys = recipientKeys(prefix, recipientId);
      const sets = [keys.sent, ...(category === undefined ? [] : [categoryKeys(keys, category).sent])];
      const members = Array.from({ length: ASKS }, (_, ask) => memberOf(entryOf(`${id}/${ask}`)));
      const scores = await Promise.all(sets.map((set) => master.zmscore(set, ...members)));
      return scores.flat().some((score) => score !== null) ? [] : [{ id, at }];
    }),
  );
  // A notification to two devices has one slot.
  return [...new Map(missing.flat().map((one) => [one.id, one])).values()];
}
