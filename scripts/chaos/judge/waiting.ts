import type { JournalEntry } from '../../../src/sandbox/journal.ts';
import { shownOf } from '../../support/shown.ts';
import type { Enqueued } from '../run/enqueue.ts';
import type { Completed, Ends } from '../run/queue.ts';
import { refOf } from '../plan/workload.ts';

/** What became of those that waited together, or were canceled. */
export interface Waited {
  /** They ended because a newer one took their slot. */
  readonly superseded: number;
  /** They are a part of a digest that went for them. */
  readonly merged: number;
  /** Requests for a digest that providers accepted. */
  readonly digests: number;
  readonly canceled: number;
  /** Silent alerts in quiet hours. */
  readonly quietAlerts: number;
  /** What went otherwise than it must, such as a digest of another number than the notifications in it. */
  readonly faults: readonly string[];
}

export interface WaitedParts {
  readonly enqueued: ReadonlyMap<string, Enqueued>;
  readonly entries: readonly JournalEntry[];
  readonly ends: Pick<Ends, 'completed' | 'dead'>;
  /** Notification → the last answer to its cancel: whether it was canceled. */
  readonly cancels: ReadonlyMap<string, boolean>;
  /** Notifications that a worker had when it was struck: it may have sent them without noting it. */
  readonly inHand: ReadonlySet<string>;
}

/** `3 new`, which the plan's `DIGEST_BODY` becomes. */
const SENT_BODY = /^(\d+) new$/;

/** Counted from what the providers got and how the jobs ended. */
export function judgeWaiting({ enqueued, entries, ends, cancels, inHand }: WaitedParts): Waited {
  const completed = new Map(ends.completed.map((one) => [one.id, one]));
  const dead = new Set(ends.dead.map(({ id }) => id));
  const merged = ends.completed.filter(({ outcome }) => outcome === 'merged');
  const superseded = ends.completed.filter(({ outcome }) => outcome === 'superseded');
  const members = Map.groupBy(merged, ({ by }) => by ?? '');
  const accepted = entries.filter((entry) => entry.accepted);
  const digests = accepted.filter(({ body = '' }) => SENT_BODY.test(body));
  const isCanceled = ({ id }: Pick<Completed, 'id'>): boolean => cancels.get(id) === true;

  const keyOf = (id: string): string | undefined => enqueued.get(id)?.input?.digest?.key;
  /** One that joined, whose worker was killed before it could say so, and that then expired. */
  const expired = ends.completed.filter(({ outcome }) => outcome === 'expired');
  const expiredWith = (id: string): number =>
    keyOf(id) === undefined ? 0 : expired.filter((one) => keyOf(one.id) === keyOf(id)).length;

  const faults: string[] = [];
  const alerted = new Set(accepted.map(({ data }) => refOf(data)));
  for (const entry of accepted) {
    const id = refOf(entry.data);
    const joined = (members.get(id) ?? []).filter((one) => !isCanceled(one)).length;
    const expected = joined + (isCanceled({ id }) ? 0 : 1);
    const found = Number(SENT_BODY.exec(entry.body ?? '')?.[1] ?? 1);
    if (found < expected || found > expected + expiredWith(id))
      faults.push(`${id}: an alert for ${found}, of ${expected} notifications`);
  }
  for (const { id, by = '' } of [...merged, ...superseded]) {
    if (!completed.has(by) && !dead.has(by)) faults.push(`${id}: gave way to ${by}, which has no end`);
    if (alerted.has(id) && !inHand.has(id) && !mayHaveFailed(id, completed))
      faults.push(`${id}: gave way to ${by}, and was sent too`);
    if (enqueued.get(id)?.input?.recipientId !== enqueued.get(by)?.input?.recipientId)
      faults.push(`${id}: gave way to ${by}, of another recipient`);
  }
  for (const { id, outcome } of ends.completed) {
    if (outcome === 'canceled' && !cancels.has(id)) faults.push(`${id}: canceled, but nobody asked for it`);
  }
  for (const entry of accepted) {
    const input = enqueued.get(refOf(entry.data))?.input;
    if (input?.onQuiet !== undefined && shownOf(entry) === 'alert') faults.push(`${input.id}: sounded in quiet hours`);
  }
  for (const [id, canceled] of cancels) {
    const outcome = completed.get(id)?.outcome;
    if (canceled && alerted.has(id) && !members.has(id)) faults.push(`${id}: sent although it was canceled`);
    if (!canceled && outcome === 'canceled') faults.push(`${id}: canceled, but the answer was that it is too late`);
  }
  return {
    superseded: superseded.length,
    merged: merged.length,
    digests: digests.length,
    canceled: ends.completed.filter(({ outcome }) => outcome === 'canceled').length,
    quietAlerts: accepted.filter(({ data }) => enqueued.get(refOf(data))?.input?.onQuiet === 'silence').length,
    faults,
  };
}

/**
 * A provider accepted it, but its answer said otherwise or was lost: then it is tried again, and may give way to a newer one.
 */
function mayHaveFailed(id: string, completed: ReadonlyMap<string, Completed>): boolean {
  return (completed.get(id)?.progress.attempts.length ?? 0) > 0;
}
