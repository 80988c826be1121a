import type { Job, Queue, QueueBase, RedisQueueBackend } from 'bullmq';
import type { Waited } from '../notification/outcome.ts';
import { defineQueueScript } from '../redis/scripts.ts';
import { jobOfLostLock, lockKeyOf, makeDueAt, noteWhy } from './bullmq-internals.ts';
import { PRIORITY } from './names.ts';

/** A worker's job lock (BullMQ's), and the writes about the job that need this lock. */
export interface JobLock {
  /** How long the lock lasts unless it is renewed, milliseconds. */
  readonly lockMs: number;
  /**
   * Until this instant of `performance.now()` the lock is certainly valid, without asking Redis. A send after it could be a
   * second one: another worker may have taken the job.
   */
  readonly until: number;
  /**
   * Whether this worker still has the lock. After `until` it asks Redis, and renews the lock; false also if Redis does not
   * answer.
   */
  isValid(): boolean | Promise<boolean>;
  /** Saves the job's progress. False if another worker has the job; then nothing is written. */
  save(progress: object): Promise<boolean>;
  /**
   * Puts the job back for `delayMs` without an attempt, and saves its progress, if there is one. When the job is due, it goes
   * before all jobs that no worker has looked at yet. Rejects, and writes nothing, if the lock was lost or the job was removed.
   * The processor must then throw BullMQ's `DelayedError`.
   */
  putBack(delayMs: number, progress: object | undefined): Promise<void>;
}

/** The error if a result is not written because another worker has the job. */
export const ANOTHER_HAS_IT = 'another worker has the job';

/** Whether an error says that the lock of a job was lost. */
export function isLockLost(error: unknown): boolean {
  return jobOfLostLock(error) !== undefined || (error instanceof Error && error.message === ANOTHER_HAS_IT);
}

/** The queue's side of BullMQ: a `Queue`, or a `Worker`, whose commands are on Redis's clock. */
type Jobs = Pick<QueueBase<RedisQueueBackend>, 'getBackend' | 'toKey'>;
type LockedJob = Pick<Job, 'id' | 'processedOn'>;

/** What the locks of all jobs of a queue have in common. */
export interface JobLockOptions {
  /** The worker that took the jobs. */
  readonly queue: Jobs;
  readonly lockMs: number;
  /** Called when a job was put back, with the instant at which it is due: epoch milliseconds on this machine's clock. */
  readonly onPutBack?: (dueAt: number) => void;
}

/** When this share of its time is over, a lock is not relied on without asking Redis. */
const CERTAIN_SHARE = 0.5;
const SAVE = defineQueueScript<number>(new URL('save-progress.lua', import.meta.url), 2);

/**
 * The lock with which a job was taken. It is counted from `job.processedOn`: when the job was asked for, on this machine's
 * clock. If the process was stopped (SIGSTOP, a paused container, a machine that sleeps), one of its two clocks may have stood
 * still, so the age of the lock is read from both, and the older age counts.
 */
export function createJobLock(job: LockedJob, token: string, options: JobLockOptions): JobLock {
  return new BullMqJobLock(job, token, options);
}

/** A class instead of closures, because one is created for each pass of a job. */
class BullMqJobLock implements JobLock {
  readonly lockMs: number;
  readonly #jobId: string;
  readonly #token: string;
  readonly #options: JobLockOptions;
  #lockedAt: number;
  #until: number;

  constructor({ id = '', processedOn = -Infinity }: LockedJob, token: string, options: JobLockOptions) {
    this.lockMs = options.lockMs;
    this.#jobId = id;
    this.#token = token;
    this.#options = options;
    this.#lockedAt = processedOn;
    this.#until = performance.now() - (Date.now() - processedOn) + options.lockMs * CERTAIN_SHARE;
  }

  get until(): number {
    return this.#until;
  }

  isValid(): boolean | Promise<boolean> {
    return this.#isCertain() || this.#renew();
  }

  async save(progress: object): Promise<boolean> {
    const { queue } = this.#options;
    const keys = [lockKeyOf(queue, this.#jobId), queue.toKey(this.#jobId)];
    return (await SAVE(queue, [...keys, this.#token, JSON.stringify(progress)])) === 1;
  }

  async putBack(delayMs: number, progress: object | undefined): Promise<void> {
    const now = Date.now();
    const waitMs = Math.max(0, Math.ceil(delayMs));
    // One script writes everything. `job.changePriority` would also search the whole list of jobs without a priority each time.
    await this.#options.queue.getBackend().moveToDelayed(this.#jobId, now, waitMs, this.#token, {
      skipAttempt: true,
      fieldsToUpdate: { priority: PRIORITY.due, ...(progress && { progress: JSON.stringify(progress) }) },
    });
    this.#options.onPutBack?.(now + waitMs);
  }

  #isCertain(): boolean {
    const ageMs = Date.now() - this.#lockedAt;
    return performance.now() < this.#until && ageMs >= 0 && ageMs < this.lockMs * CERTAIN_SHARE;
  }

  async #renew(): Promise<boolean> {
    const asked = { wall: Date.now(), steady: performance.now() }; // before the ask, since the lock begins after it
    const backend = this.#options.queue.getBackend();
    const renewed = await backend.extendLock(this.#jobId, this.#token, this.lockMs).catch(() => 0);
    if (renewed !== 1) return false;
    this.#lockedAt = asked.wall;
    this.#until = asked.steady + this.lockMs * CERTAIN_SHARE;
    return this.#isCertain();
  }
}

/** A delayed job and its new due time. */
export interface Due {
  readonly jobId: string;
  /** Epoch milliseconds on Redis's clock. */
  readonly at: number;
  /**
   * Why it waits until then, for `producer.status`. It is not written to the job's progress, since only a worker may write
   * there.
   */
  readonly why?: Pick<Waited, 'rule' | 'ruleUntil'>;
}

/** How many commands are under way at once, so that workers' commands get through in between. */
const AT_ONCE = 100;

/**
 * Changes the due times of delayed jobs, and answers how many were delayed. A job whose time is past is due at once. Jobs that
 * have ended, or that a worker has by now, are left as they are: a worker asks the limiter anyway.
 *
 * @param queues the queues that may have the jobs, the most likely first
 */
export async function redelay(queues: readonly Queue[], jobs: readonly Due[]): Promise<number> {
  let done = 0;
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const changed = await Promise.all(jobs.slice(from, from + AT_ONCE).map((due) => changeFirst(queues, due)));
    done += changed.filter(Boolean).length;
  }
  return done;
}

/** Changes the job in the first queue that has it. False if none has. */
async function changeFirst(queues: readonly Queue[], due: Due): Promise<boolean> {
  for (const queue of queues) if (await changeDue(queue, due)) return true;
  return false;
}

async function changeDue(queue: Queue, { jobId, at, why }: Due): Promise<boolean> {
  if (!(await makeDueAt(queue, jobId, at))) return false;
  // No worker has taken the job since its due time was changed: no slot is moved to earlier than MOVE_LEAD_MS from now.
  if (why !== undefined) await noteWhy(queue, jobId, { at, ...why });
  return true;
}
