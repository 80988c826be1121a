import type { Job, Queue, QueueBase, RedisQueueBackend } from 'bullmq';
import type { Waited } from '../notification/outcome.ts';
import { defineQueueScript } from '../redis/scripts.ts';
import { jobOfLostLock, lockKeyOf, makeDueAt, noteWhy } from './bullmq-internals.ts';
import { PRIORITY } from './names.ts';

/** A worker's lock on a job (BullMQ's), and what may be written about the job only under it. */
export interface JobLock {
  /** How long the lock lasts unless it is renewed, milliseconds. */
  readonly lockMs: number;
  /**
   * Until this instant of `performance.now()` the lock is certainly valid, without asking Redis. A send after it could be a
   * second one: another worker may have taken the job.
   */
  readonly until: number;
  /** Whether this worker still has the lock. After `until` it asks Redis, and renews the lock; false also without an answer. */
  isValid(): boolean | Promise<boolean>;
  /** Saves the job's progress; false where another worker has the job, and then nothing is written. */
  save(progress: object): Promise<boolean>;
  /**
   * Puts the job back for `delayMs`, at no attempt, and saves its progress, if there is one. When it is due it goes ahead of all jobs that no worker
   * has looked at yet. Rejects where the lock was lost or the job was removed, and then nothing is written. The processor then
   * throws BullMQ's `DelayedError`.
   */
  putBack(delayMs: number, progress: object | undefined): Promise<void>;
}

/** The error of a result that is not written because another worker has the job. */
export const ANOTHER_HAS_IT = 'another worker has the job';

/** Whether an error says that the lock of a job was lost. */
export function isLockLost(error: unknown): boolean {
  return jobOfLostLock(error) !== undefined || (error instanceof Error && error.message === ANOTHER_HAS_IT);
}

/** The queue's side of BullMQ: a `Queue`, or a `Worker`, whose commands are on Redis's clock. */
type Jobs = Pick<QueueBase<RedisQueueBackend>, 'getBackend' | 'toKey'>;
type LockedJob = Pick<Job, 'id' | 'processedOn'>;

/** The same for all jobs of a queue. */
export interface JobLockOptions {
  /** The worker that took the jobs. */
  readonly queue: Jobs;
  readonly lockMs: number;
  /** Called when a job was put back, with the instant at which it is due: epoch milliseconds on this machine's clock. */
  readonly onPutBack?: (dueAt: number) => void;
}

/** After this share of its time a lock is not relied on without asking Redis. */
const CERTAIN_SHARE = 0.5;
const SAVE = defineQueueScript<number>(new URL('save-progress.lua', import.meta.url), 2);

/**
 * The lock that a job was taken with. It began after `job.processedOn`: when the job was asked for, on this machine's clock. A process
 * that is stopped (SIGSTOP, a paused container, a machine that sleeps) may find that one of its two clocks stood still, so the age of
 * the lock is read from both, and the older age counts.
 */
export function createJobLock(job: LockedJob, token: string, options: JobLockOptions): JobLock {
  return new BullMqJobLock(job, token, options);
}

/** A class, because one is created for each pass of a job. */
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
    // One script writes all of it. `job.changePriority` would also search the whole list of jobs without a priority each time.
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
    const asked = { wall: Date.now(), steady: performance.now() }; // before the ask: the lock begins after it
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
   * Why it waits until then, for `producer.status`. The reason in the job's progress is older, and only a worker may write there; it
   * stays where this has none.
   */
  readonly why?: Partial<Pick<Waited, 'rule' | 'ruleUntil'>>;
}

/** How many commands are under way at once, so that workers' commands get through in between. */
const AT_ONCE = 100;

/**
 * Changes the due times of delayed jobs, and answers how many were delayed. What is past is due at once. Jobs that a worker has by
 * now or that have ended are left as they are: a worker asks the limiter anyway.
 *
 * @param queues those that may have the jobs, the most likely first
 */
export async function redelay(queues: readonly Queue[], jobs: readonly Due[]): Promise<number> {
  let done = 0;
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const changed = await Promise.all(jobs.slice(from, from + AT_ONCE).map((due) => changeFirst(queues, due)));
    done += changed.filter(Boolean).length;
  }
  return done;
}

/** In the queue that has the job. */
async function changeFirst(queues: readonly Queue[], due: Due): Promise<boolean> {
  for (const queue of queues) if (await changeDue(queue, due)) return true;
  return false;
}

async function changeDue(queue: Queue, { jobId, at, why }: Due): Promise<boolean> {
  if (!(await makeDueAt(queue, jobId, at))) return false;
  // No worker has taken the job since: no slot is moved to earlier than MOVE_LEAD_MS from now.
  if (why !== undefined) await noteWhy(queue, jobId, { at, ...why });
  return true;
}
