import type { JournalEntry } from '../../../src/sandbox/journal.ts';
import type { Enqueued } from '../run/enqueue.ts';
import type { Incident, Thaw } from '../run/freezes.ts';
import type { Cut, Struck } from '../run/inject.ts';
import type { Ends } from '../run/queue.ts';
import { refOf } from '../plan/workload.ts';

/** Why a device may have got a notification a second time. */
type Excuse = Incident['kind'] | 'answer' | 'cut';

export interface Duplicates {
  /** A device accepted a notification once more than once. */
  readonly duplicates: number;
  /** Of what was in hand when something was struck, and of what a provider took without saying so, so many may come. */
  readonly duplicateBound: number;
  readonly unexplainedDuplicates: number;
  /** Requests for a device of a notification whose apns-id, collapse id or tag is not that of the first one. */
  readonly changedIds: number;
  readonly explainedBy: Readonly<Record<Excuse, number>>;
  /** The unexplained: `notification device-platform first-instant second-instant`. */
  readonly unexplained: readonly string[];
}

export interface DuplicatesParts extends Pick<Struck, 'incidents' | 'cuts'> {
  readonly enqueued: ReadonlyMap<string, Enqueued>;
  readonly entries: readonly JournalEntry[];
  readonly ends: Pick<Ends, 'completed' | 'dead'>;
  readonly thaws: readonly Thaw[];
}

/** What was on its way when a process was struck may still arrive so much later. */
const TRANSIT_MS = 500;
/** A request that is cut off may have been taken so long before: the slowest answers take nearly a second. */
const ANSWER_MS = 1_500;

/** Every second acceptance must have a reason of its own notification's. */
export function countDuplicates(parts: DuplicatesParts): Duplicates {
  const { enqueued, entries, incidents } = parts;
  const explain = excuses(parts);
  const explainedBy = { answer: 0, kill: 0, stop: 0, redis: 0, cut: 0 };
  const unexplained: string[] = [];
  let changedIds = 0;
  for (const requests of Map.groupBy(entries, ({ data, token }) => `${refOf(data)} ${token}`).values()) {
    const [origin] = requests;
    changedIds += requests.filter((request) => idsOf(request) !== (origin && idsOf(origin))).length;
    const accepted = requests.filter((entry) => entry.accepted).toSorted((a, b) => a.at - b.at);
    for (const [index, second] of accepted.entries()) {
      const first = accepted[index - 1];
      if (first === undefined) continue;
      const excuse = explain(first, second);
      if (excuse === undefined) unexplained.push(`${refOf(first.data)} ${first.platform} ${first.at} ${second.at}`);
      else explainedBy[excuse] += 1;
    }
  }
  const inHand = incidents.flatMap(({ ids }) => [...ids].map((id) => enqueued.get(id)?.input?.devices.length ?? 0));
  return {
    duplicates: unexplained.length + Object.values(explainedBy).reduce((sum, count) => sum + count, 0),
    duplicateBound: inHand.reduce((sum, devices) => sum + devices, 0) + entries.filter(mayRepeat(parts)).length,
    unexplainedDuplicates: unexplained.length,
    changedIds,
    explainedBy,
    unexplained,
  };
}

function excuses(parts: DuplicatesParts): (first: JournalEntry, second: JournalEntry) => Excuse | undefined {
  const wasCut = cutsOf(parts);
  return (first, second) => {
    if (isUntold(first)) return 'answer';
    const id = refOf(first.data);
    // Only what was in hand before it was struck, and came again after it.
    const struck = parts.incidents.find(
      ({ at, until, ids }) => ids.has(id) && first.at <= until + TRANSIT_MS && second.at > at,
    );
    if (struck !== undefined) return struck.kind;
    // One of the two left when its worker went on: the job was another worker's by then.
    const isLate = ({ at }: JournalEntry): boolean =>
      parts.thaws.some(({ ids, from, until }) => ids.has(id) && at >= from && at <= until);
    if (isLate(first) || isLate(second)) return 'stop';
    return wasCut(first, second.at) ? 'cut' : undefined;
  };
}

/** Taken, and answered as if not, or not at all. */
function isUntold({ accepted, status }: JournalEntry): boolean {
  return accepted && status !== 200;
}

function mayRepeat(parts: DuplicatesParts): (entry: JournalEntry) => boolean {
  const wasCut = cutsOf(parts);
  return (entry) => isUntold(entry) || (entry.accepted && wasCut(entry, Infinity));
}

/**
 * Whether the connection was cut while the answer was under way: a cut of that provider's connections just then, and a
 * failed try at that device that the job tells of.
 */
function cutsOf({ cuts, entries, ends, enqueued }: DuplicatesParts): (entry: JournalEntry, before: number) => boolean {
  const resets = entries.filter(({ reason }) => reason === 'reset');
  const all: Cut[] = [...cuts, ...resets.map(({ platform, at }) => ({ platform, at }))];
  const attempts = new Map(ends.completed.map(({ id, progress }) => [id, progress.attempts]));
  for (const { id, letter } of ends.dead) attempts.set(id, letter.attempts);
  return ({ platform, token, at, data }, before) => {
    const id = refOf(data);
    const index = enqueued.get(id)?.input?.devices.findIndex((device) => device.token === token);
    const failed = (attempts.get(id) ?? []).filter(
      (attempt) =>
        attempt.device === `${platform}#${index}` &&
        attempt.at >= at &&
        attempt.at < before &&
        attempt.at < at + ANSWER_MS + TRANSIT_MS &&
        attempt.error.startsWith('reset'),
    );
    return (
      failed.length > 0 &&
      all.some((cut) => cut.platform === platform && cut.at >= at - TRANSIT_MS && cut.at <= at + ANSWER_MS)
    );
  };
}

/** What tells a device that it has the notification already. */
function idsOf({ apnsId, collapseId, payload }: JournalEntry): string {
  const { android } = (payload ?? {}) as { android?: { notification?: { tag?: string } } };
  return `${apnsId ?? ''} ${collapseId ?? ''} ${android?.notification?.tag ?? ''}`;
}
