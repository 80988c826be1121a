import { setTimeout as sleep } from 'node:timers/promises';
import type { Job } from 'bullmq';
import type { CountedAs } from '../domain/limits.ts';
import { within } from '../domain/time.ts';
import type { Canceled, CancelTarget } from '../notification/notification.ts';
import { hasOthers } from '../notification/outcome.ts';
import { firstEnqueuedAtOf } from '../notification/story.ts';
import type { CancelRequest, Canceller } from '../limiter/redis/canceller.ts';
import type { Connection } from '../redis/connection.ts';
import { lockKeyOf } from '../queue/bullmq-internals.ts';
import { redelay } from '../queue/redelay.ts';
import { find, homesIn, jobsOf, progressOf, stageOf, type AllFound, type FindParts, type Found } from './find.ts';

export interface CancelParts extends FindParts {
  /** The limiters that decide: for alerts, for background pushes and for Live Activities. */
  readonly deciders: Readonly<Record<CountedAs, Canceller>>;
}

/** How long to wait for a pass that is under way. */
const PASS_MS = 2_000;
/** The wait between two looks at that pass: it doubles from the first to the longest. */
const LOOK_MS = { first: 10, longest: 160 };
/** How many notifications are canceled at once, so that other commands get through in between. */
const AT_ONCE = 100;

/**
 * Cancels what has not been sent. In the limiter, a cancel and an admission of the same recipient never run at the same time.
 * After a cancel the notification gets no slot any more; after an admission it is too late to cancel. The job itself stays. It
 * is woken, its next pass asks for a slot, and the job ends as `canceled`. Safe to repeat.
 */
export async function cancelWaiting(target: CancelTarget, parts: CancelParts): Promise<Canceled> {
  const { jobs, dead, gone } = await findForCancel(target, parts);
  for (const [key, ids] of gone) if (ids.length > 0) await parts.connection.zrem(key, ...ids);
  const answers: boolean[] = [];
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const some = jobs.slice(from, from + AT_ONCE);
    answers.push(...(await Promise.all(some.map((found) => cancelOne(found, parts)))));
  }
  return countsOf(target, answers, dead.length > 0);
}

/** By a cancellation key, a cancel leaves out notifications that have ended, unless an earlier cancel ended them. */
async function findForCancel(target: CancelTarget, parts: FindParts): Promise<AllFound> {
  const found = await find(target, parts);
  const isMeant = ({ job }: Found): boolean => job.finishedOn === undefined || stageOf(job) === 'canceled';
  const jobs = 'id' in target ? found.jobs : found.jobs.filter(isMeant);
  return { ...found, jobs };
}

/** `answers`: one for each job. By an id, all jobs count as one; `isDead`: there is a dead letter. */
function countsOf(target: CancelTarget, answers: readonly boolean[], isDead: boolean): Canceled {
  const canceled = answers.filter(Boolean).length;
  if (!('id' in target)) return { canceled, tooLate: answers.length - canceled };
  if (canceled > 0) return { canceled: 1, tooLate: 0 };
  return { canceled: 0, tooLate: answers.length > 0 || isDead ? 1 : 0 };
}

/** A notification that a cancel would find. Everything is read from its job. */
export interface Cancelable {
  readonly jobId: string;
  readonly recipientId: string;
  readonly countedAs: CountedAs;
  /** When the notification was first enqueued: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** The number of the notification's next ask for a slot. */
  readonly asks: number;
  /** False: the notification was canceled before, or it is too late to cancel it. */
  readonly waits: boolean;
}

/** What `cancelWaiting` would find, and what it would answer. */
export interface Cancelables extends Canceled {
  readonly found: readonly Cancelable[];
}

/** What `cancelWaiting` would do now. Writes nothing. */
export async function findCancelable(target: CancelTarget, parts: FindParts): Promise<Cancelables> {
  const { jobs, dead } = await findForCancel(target, parts);
  const stages = jobs.map(({ job }) => stageOf(job));
  const found = jobs.map(({ job, place: { recipientId, kind: countedAs } }, index): Cancelable => {
    const { asks = 0 } = progressOf(job);
    const waits = stages[index] === 'waits';
    return { jobId: job.id ?? '', recipientId, countedAs, enqueuedAt: firstEnqueuedAtOf(job), asks, waits };
  });
  const answers = stages.map((stage) => stage === 'waits' || stage === 'canceled');
  return { found, ...countsOf(target, answers, dead.length > 0) };
}

async function cancelOne(found: Found, parts: CancelParts): Promise<boolean> {
  const stage = stageOf(found.job);
  if (stage !== 'waits') return stage === 'canceled';
  const stopped = await stop(found, parts, (job) => stageOf(job) !== 'waits');
  if (typeof stopped === 'string') return false;
  const { job, request, isTaken } = stopped;
  const decider = parts.deciders[found.place.kind];
  const after = job === undefined ? 'waits' : stageOf(job); // if the job became a dead letter, its replay ends as canceled
  // The limiter knows no slot of the notification, but a worker has its job: the send takes very long, or the worker has died.
  const isUnsure = after === 'waits' && isTaken;
  if (isUnsure) return !(await decider.takeBack(request));
  if (after === 'ended' || after === 'canceled') await decider.forget(request); // the job may have ended before this cancel
  return after !== 'ended';
}

/** A notification that gets no slot any more. */
interface Stopped {
  readonly request: CancelRequest;
  /** The job after its last pass; undefined if it is gone. */
  readonly job: Job<unknown> | undefined;
  /** A pass of the job is still under way; or its worker died, and no other worker has noticed that yet. */
  readonly isTaken: boolean;
}

/**
 * Stops a notification in the limiter: it gets no slot any more. Then waits until no pass of its job is under way, or until
 * `isSure(job)`, for 2 s at most. Then wakes the job, unless a pass still has it, so that the next pass ends the job. `too-late`:
 * it is being sent, or was sent. `replaced`: it is never sent, since another notification is sent in its place.
 *
 * @param isResend also stops a notification that was sent before, and waits to be sent again
 */
export async function stop(
  found: Found,
  parts: CancelParts,
  isSure: (job: Job<unknown>) => boolean,
  isResend = false,
): Promise<Stopped | 'too-late' | 'replaced'> {
  const { kind, ...scope } = found.place;
  const jobId = found.job.id ?? '';
  const { asks = 0, digest } = progressOf(found.job);
  // The digest was admitted, and is still to be sent for the others. The job remembers that longer than the limiter does.
  if (hasOthers(digest)) return 'too-late';
  const request = { ...scope, id: `${jobId}/${asks}`, enqueuedAt: firstEnqueuedAtOf(found.job) };
  const decider = parts.deciders[kind];
  const { canceled, isReplaced = false, isForOthers = false, leader } = await decider.cancel({ ...request, isResend });
  if (!canceled) return isReplaced ? 'replaced' : 'too-late';
  const after = await afterPass(found, parts.connection, isSure);
  const waits = !after.isTaken && after.job !== undefined && stageOf(after.job) === 'waits';
  // Another cancel that had waited for the same pass may have taken back what this one found. Then this one is the first.
  if (waits && !isForOthers && !(await decider.keep(request))) return stop(found, parts, isSure, isResend);
  const leads = leader?.id?.replace(/\/\d+$/, '');
  const { followed } = await redelay(homesIn(scope.recipientId, parts), [
    ...(after.isTaken ? [] : [{ jobId, at: 0 }]),
    ...(leader !== undefined && leads !== undefined ? [{ jobId: leads, at: leader.at }] : []),
  ]);
  await within(followed, PASS_MS).catch(() => undefined); // the cancel holds without that
  return { request, ...after };
}

/**
 * Waits until no pass of the job is under way, or until `isSure(job)`, for 2 s at most; then answers the job. The limiter
 * forgets an admission after its longest window, or at a `reset`. A send may take longer: then only the job lock shows that a
 * pass is under way. A pass that sends nothing ends within a second. If a worker died, its job stays in BullMQ's list `active`,
 * after some time without a lock.
 */
async function afterPass(
  { queue, job: { id = '' } }: Found,
  connection: Connection,
  isSure: (job: Job<unknown>) => boolean,
): Promise<Pick<Stopped, 'job' | 'isTaken'>> {
  const deadline = performance.now() + PASS_MS;
  for (let waitMs = LOOK_MS.first; ; waitMs = Math.min(2 * waitMs, LOOK_MS.longest)) {
    // The job is read last: a pass writes its end before it unlocks; if a worker died, the job notes that when it waits again.
    const isLocked = (await connection.exists(lockKeyOf(queue, id))) === 1;
    const isTaken = isLocked || (await queue.getJobState(id)) === 'active';
    const job = (await jobsOf(queue, [id]))[0]?.job; // a mark that a reshard left is no job
    if (!isTaken || performance.now() > deadline || (job !== undefined && isSure(job))) return { job, isTaken };
    await sleep(waitMs);
  }
}
