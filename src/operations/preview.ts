import type { Queue } from 'bullmq';
import { jobIdOfAsk, MOVE_LEAD_MS } from '../delivery/lines.ts';
import { isObject, parseJson } from '../domain/json.ts';
import type { CountedAs } from '../domain/limits.ts';
import { parseNotification } from '../notification/notification.ts';
import type { Action, Foreseen } from '../limiter/foresee.ts';
import type { Moved } from '../limiter/limiter.ts';
import type { Foresight } from '../limiter/redis/foresight.ts';
import type { Cancelables } from '../producer/cancel.ts';
import { notificationIdOf } from '../queue/names.ts';
import { readJobs } from '../queue/readable.ts';
import { limitersOf } from './actions.ts';

/** What previews read. They write nothing. */
export interface PreviewParts {
  /** The foresights for the limiters of `ActionParts`. */
  readonly foresights: Readonly<Record<CountedAs, Foresight>>;
  /** The queues that may have the recipient's notifications. */
  readonly own: readonly Queue<unknown>[];
}

/** A waiting notification that would get another slot. */
export interface PreviewedSlot extends Pick<Moved, 'rule' | 'ruleUntil'> {
  /** The notification's id; absent if the limiter stores only a digest of it. */
  readonly id?: string;
  /** `from` and `to`: epoch milliseconds on the limiter's clock. */
  readonly from: number;
  readonly to: number;
}

/** What an action would do to the notifications that wait. If the action is run right after, it does exactly this. */
export interface Preview {
  /** The limiter's clock: epoch milliseconds. */
  readonly now: number;
  /** How many notifications have a slot, and how many of these would get another one. */
  readonly waiting: number;
  readonly moves: number;
  readonly earlier: number;
  readonly later: number;
  /** The last slot of all; absent if no notification waits. */
  readonly lastAtBefore?: number;
  readonly lastAtAfter?: number;
  /**
   * How many would be sent in time now, but would expire before their new slots. `expiryKnown`: for how many of `later` the
   * expiry was looked up.
   */
  readonly expiring: number;
  readonly expiryKnown: number;
  /** The notifications that move, in the order in which they wait. */
  readonly slots: readonly PreviewedSlot[];
}

/** The expiry is read for at most this many notifications that move to a later slot. */
const MOST_LOOKED_UP = 2_000;
const JOBS_A_READ = 100;

/** Rejects with InputError if the action itself would. */
export async function preview(
  recipientId: string,
  action: Action,
  { foresights, own }: PreviewParts,
): Promise<Preview> {
  const each = limitersOf(action, foresights).map((one) => one.foresee(recipientId, action, MOVE_LEAD_MS));
  return previewOf(await Promise.all(each), own);
}

/** What a cancel would end, and what it would do to the notifications that are left. */
export interface CancelPreview extends Preview {
  /** How many would be canceled; those that were canceled before count again. */
  readonly cancels: number;
  /** For how many it is too late. */
  readonly tooLate: number;
}

export async function previewCancel(
  recipientId: string,
  { found, canceled: cancels, tooLate }: Cancelables,
  { foresights, own }: PreviewParts,
): Promise<CancelPreview> {
  const waiting = found.filter((job) => job.waits && job.recipientId === recipientId);
  const foreseen = await Promise.all(
    [...Map.groupBy(waiting, ({ countedAs }) => countedAs)].map(([kind, jobs]) =>
      foresights[kind].foreseeCancel(recipientId, jobs, MOVE_LEAD_MS),
    ),
  );
  return { ...(await previewOf(foreseen, own)), cancels, tooLate };
}

async function previewOf(foreseen: readonly Foreseen[], queues: readonly Queue<unknown>[]): Promise<Preview> {
  const all = foreseen.flatMap(({ slots }) => slots);
  const moved = all.filter(({ from, at }) => from !== at).toSorted((a, b) => a.from - b.from);
  const later = moved.filter(({ from, at }) => at > from);
  const lookedUp = later.slice(0, MOST_LOOKED_UP);
  const expiries = await expiriesOf(queues, lookedUp);
  const expiring = lookedUp.filter((slot) => {
    const expiresAt = expiries.get(slot) ?? Infinity;
    return expiresAt > slot.from && expiresAt <= slot.at;
  });
  return {
    now: foreseen[0]?.now ?? Date.now(),
    waiting: all.length,
    ...{ moves: moved.length, earlier: moved.length - later.length, later: later.length },
    ...(all.length > 0 && {
      lastAtBefore: latest(all.map(({ from }) => from)),
      lastAtAfter: latest(all.map(({ at }) => at)),
    }),
    ...{ expiring: expiring.length, expiryKnown: lookedUp.length },
    slots: moved.map(({ id: askId, from, at: to, rule, ruleUntil }) => {
      const jobId = askId === undefined ? undefined : (jobIdOfAsk(askId) ?? askId);
      const id = jobId !== undefined && { id: notificationIdOf(jobId) };
      return { ...id, from, to, rule, ...(ruleUntil !== undefined && { ruleUntil }) };
    }),
  };
}

/** The latest of these instants. Not by `Math.max(...instants)`: there may be more instants than a call may have arguments. */
function latest(instants: readonly number[]): number {
  return instants.reduce((last, at) => Math.max(last, at), -Infinity);
}

/** When these notifications expire: epoch milliseconds; those that do not expire are left out. */
async function expiriesOf(queues: readonly Queue<unknown>[], slots: readonly Moved[]): Promise<Map<Moved, number>> {
  const found = new Map<Moved, number>();
  const jobs = slots.flatMap((slot) => {
    const jobId = slot.id === undefined ? undefined : jobIdOfAsk(slot.id);
    return jobId === undefined ? [] : [{ slot, jobId }];
  });
  for (let from = 0; from < jobs.length; from += JOBS_A_READ) {
    const some = jobs.slice(from, from + JOBS_A_READ);
    const ids = some.map(({ jobId }) => jobId);
    const read = await Promise.all(queues.map((queue) => readJobs(queue, ids, 0)));
    for (const [index, { slot, jobId }] of some.entries()) {
      const data = parseJson(read.map((jobs) => jobs[index]?.[1]).find((text) => text != null) ?? '');
      if (!isObject(data)) continue;
      const parsed = parseNotification({ id: notificationIdOf(jobId), ...data });
      if (parsed.ok && parsed.notification.expiresAt !== undefined) found.set(slot, parsed.notification.expiresAt);
    }
  }
  return found;
}
