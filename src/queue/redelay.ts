import { setTimeout as sleep } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import { parseObject } from '../domain/json.ts';
import { SEND_AFTER } from '../domain/time.ts';
import { CREDENTIALS, type Waited } from '../notification/outcome.ts';
import { dueAtOfScore, lockKeyOf, makeDueAt, noteWhy } from './bullmq-internals.ts';
import { isMoving } from './readable.ts';

/** A delayed job and its new due time. */
export interface Due {
  readonly jobId: string;
  /** Epoch milliseconds on Redis's clock. */
  readonly at: number;
  /**
   * Why the job waits until then, for `producer.status`. This reason is not written to the job's progress, since only a worker
   * may write there.
   */
  readonly why?: Pick<Waited, 'rule' | 'ruleUntil'>;
  /**
   * True if the job moves to a later time. Then a worker that has the job now needs no correction: it puts the job back until
   * the earlier time, and the job asks for its slot then.
   */
  readonly isLater?: boolean;
  /**
   * For a slot that moves to earlier. `begins`: it moves after this call. A job that is delayed now gets its new due time, so
   * that it comes in time even if this process ends before the next call; a job that is not is left to that call. `done`: the
   * slot has moved. A job that was put back meanwhile until a later time gets its new due time too.
   */
  readonly move?: 'begins' | 'done';
}

export interface Redelayed {
  /** How many of the jobs were delayed, and so got their new due times. */
  readonly moved: number;
  /**
   * Resolves when no job is followed any more; rejects if Redis is away. A job that a worker had at that moment is followed
   * until it is put back or has ended, for 30 s at most. If it then waits for a slot after its new due time, its due time is
   * changed. Jobs with `isLater` are not followed.
   */
  readonly followed: Promise<void>;
}

/** How many commands are under way at once, so that workers' commands get through in between. */
const AT_ONCE = 100;

/**
 * Changes the due times of delayed jobs. A job whose new due time is past is due at once. Jobs that have ended are left as they
 * are.
 *
 * A worker that has one of the jobs may have asked the limiter before the change. Then it puts the job back until the former
 * slot: two hours ahead, say, if quiet hours have just been ended. So this function looks at such a job until it is put back
 * (`followed`). If the job then waits for a slot, and is due later than wanted, its due time is changed. A job that is due too
 * early needs no change: it only asks the limiter once more.
 *
 * @param queues the queues that may have the jobs, the most likely first
 */
export async function redelay(queues: readonly Queue[], jobs: readonly Due[]): Promise<Redelayed> {
  let moved = 0;
  const following: Promise<void>[] = [];
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const some = jobs.slice(from, from + AT_ONCE);
    const change = (due: Due) => (due.move === 'done' ? changeLate(queues, due) : changeFirst(queues, due));
    const changed = (await Promise.all(some.map(change))).map((one) => one !== undefined && one !== false);
    moved += changed.filter(Boolean).length;
    for (const [index, due] of some.entries()) {
      if (changed[index] === true || due.isLater === true || due.move === 'begins') continue;
      const own = follow(queues, due);
      own.catch(() => undefined); // not every caller waits for it
      following.push(own);
    }
  }
  const followed = Promise.all(following).then(() => undefined);
  followed.catch(() => undefined);
  return { moved, followed };
}

/** Changes the due times of those delayed jobs that wait for a slot, and are due later than this. Answers how many. */
export async function redelayLate(queues: readonly Queue[], jobs: readonly Due[]): Promise<number> {
  let changed = 0;
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const some = await Promise.all(jobs.slice(from, from + AT_ONCE).map((due) => changeLate(queues, due)));
    changed += some.filter((one) => one === 'changed').length;
  }
  return changed;
}

/** Undefined if the job is not delayed. */
async function changeLate(queues: readonly Queue[], due: Due): Promise<'changed' | 'kept' | undefined> {
  for (const queue of queues) {
    const dueAt = await dueAtIn(queue, due.jobId);
    if (dueAt !== undefined) return (await bringForward(queue, due, dueAt)) ? 'changed' : 'kept';
  }
  return undefined;
}

/** Changes the due time of a delayed job that is due at `dueAt`, if that is too late and the job waits for a slot. */
async function bringForward(queue: Queue, due: Due, dueAt: number): Promise<boolean> {
  return dueAt > due.at && (await waitsForSlot(queue, due.jobId)) && changeDue(queue, due);
}

/** Changes the job in the first queue in which it is delayed. False if it is in none. */
async function changeFirst(queues: readonly Queue[], due: Due): Promise<boolean> {
  for (const queue of queues) if (await changeDue(queue, due)) return true;
  return false;
}

async function changeDue(queue: Queue, { jobId, at, why }: Due): Promise<boolean> {
  if (!(await makeDueAt(queue, jobId, at))) return false;
  // Between these two writes a worker hardly ever takes the job: a slot that is moved lies at least MOVE_LEAD_MS ahead.
  if (why !== undefined) await noteWhy(queue, jobId, { at, ...why });
  return true;
}

/** With the default of LOCK_DURATION, a worker that stands still for longer than this has lost its job. */
const MOST_FOLLOWED_MS = 30_000;
/** The waits between looks at a job that a worker has: the first wait, doubled each time, and the longest wait. */
const [FIRST_LOOK_MS, LAST_LOOK_MS] = [10, 500];

async function follow(queues: readonly Queue[], due: Due): Promise<void> {
  const deadline = performance.now() + MOST_FOLLOWED_MS;
  for (let waitMs = FIRST_LOOK_MS; performance.now() < deadline; waitMs = Math.min(2 * waitMs, LAST_LOOK_MS)) {
    // In this order: the job is in its queue again before a worker or a reshard gives it up.
    const inHand = await Promise.all(queues.map((queue) => isInHand(queue, due.jobId)));
    const dueAts = await Promise.all(queues.map((queue) => dueAtIn(queue, due.jobId)));
    const delayed = dueAts.findIndex((dueAt) => dueAt !== undefined);
    const [queue, dueAt = 0] = [queues[delayed], dueAts[delayed]];
    if (queue !== undefined) {
      await bringForward(queue, due, dueAt);
      return;
    }
    if (!inHand.includes(true)) return; // it asks the limiter when it is taken, or it has ended
    await sleep(waitMs, undefined, { ref: false });
  }
}

/** Whether a worker has the job, or a reshard is moving it. */
async function isInHand(queue: Queue, jobId: string): Promise<boolean> {
  const client = await queue.getBackend().client;
  return (await client.get(lockKeyOf(queue, jobId))) !== null || isMoving(queue, jobId);
}

/** When the job is due; undefined if it is not delayed. */
async function dueAtIn(queue: Queue, jobId: string): Promise<number | undefined> {
  const client = await queue.getBackend().client;
  const score = await client.zscore(queue.toKey('delayed'), jobId);
  return score === null ? undefined : dueAtOfScore(Number(score));
}

/** Whether a delayed job waits for a slot or for a quota: not for `sendAfter`, credentials, another attempt or a breaker. */
async function waitsForSlot(queue: Queue, jobId: string): Promise<boolean> {
  const client = await queue.getBackend().client;
  const { rule } = parseObject((await client.hget(queue.toKey(jobId), 'progress')) ?? '');
  return typeof rule === 'string' && rule !== SEND_AFTER && rule !== CREDENTIALS;
}
