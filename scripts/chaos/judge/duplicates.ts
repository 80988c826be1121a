import { tokenOf } from '../../../src/domain/device.ts';
import type { JournalEntry } from '../../../src/sandbox/journal.ts';
import type { Enqueued } from '../run/enqueue.ts';
import type { Incident, Thaw } from '../run/freezes.ts';
import type { Cut, Struck } from '../run/inject.ts';
import type { Ends } from '../run/queue.ts';
import { refOf } from '../plan/workload.ts';

/** Why a device may have got a notification a second time. */
type Excuse = Incident['kind'] | 'answer' | 'cut';

export interface Duplicates {
  /** How often a device accepted a notification that it had accepted before. */
  readonly duplicates: number;
  /** How many may come: from jobs that workers had at a fault, and from requests that a provider accepted without saying so. */
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

/** A request that was on its way at a fault may arrive this much later. */
const TRANSIT_MS = 500;
/** A request whose answer was cut off may have been accepted this long before: the slowest answers take nearly a second. */
const ANSWER_MS = 1_500;

/** Counts second acceptances. Each must be explained by something that happened to the same notification. */
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
    // Only a notification that a worker had at the fault, first accepted before it and again after it.
    const struck = parts.incidents.find(
      ({ at, until, ids }) => ids.has(id) && first.at <= until + TRANSIT_MS && second.at > at,
    );
    if (struck !== undefined) return struck.kind;
    // One of the two was sent by a frozen worker when it went on: another worker had the job by then.
    const isLate = ({ at }: JournalEntry): boolean =>
      parts.thaws.some(({ ids, from, until }) => ids.has(id) && at >= from && at <= until);
    if (isLate(first) || isLate(second)) return 'stop';
    return wasCut(first, second.at) ? 'cut' : undefined;
  };
}

/** Accepted, but the answer was an error, or there was none. */
function isUntold(entry: JournalEntry): boolean {
  return entry.accepted && !saysAccepted(entry);
}

/** APNs and FCM answer an accepted request with 200, push services for browsers with 201. */
export function saysAccepted({ status }: JournalEntry): boolean {
  return status !== undefined && status < 300;
}

function mayRepeat(parts: DuplicatesParts): (entry: JournalEntry) => boolean {
  const wasCut = cutsOf(parts);
  return (entry) => isUntold(entry) || (entry.accepted && wasCut(entry, Infinity));
}

/**
 * Whether the connection was cut while the answer was under way: that provider's connections were cut at that time, and the job
 * has a failed attempt at that device.
 */
function cutsOf({ cuts, entries, ends, enqueued }: DuplicatesParts): (entry: JournalEntry, before: number) => boolean {
  const resets = entries.filter(({ reason }) => reason === 'reset');
  const all: Cut[] = [...cuts, ...resets.map(({ platform, at }) => ({ platform, at }))];
  const attempts = new Map(ends.completed.map(({ id, progress }) => [id, progress.attempts]));
  for (const { id, letter } of ends.dead) attempts.set(id, letter.attempts);
  return ({ platform, token, at, data }, before) => {
    const id = refOf(data);
    const index = enqueued.get(id)?.input?.devices.findIndex((device) => tokenOf(device) === token);
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

/** The ids by which a device sees that it has the notification already. */
function idsOf({ apnsId, collapseId, tag }: JournalEntry): string {
  return `${apnsId ?? ''} ${collapseId ?? ''} ${tag ?? ''}`;
}
