import type { Job, QueueBase, RedisQueueBackend } from 'bullmq';
import { defineQueueScript } from '../redis/scripts.ts';
import { jobOfLostLock, lockKeyOf } from './bullmq-internals.ts';
import { priorityWhenDue, type Prioritised } from './names.ts';

/** BullMQ's lock on a job that a worker has, and the writes that need this lock. */
export interface JobLock {
  /** How long the lock lasts unless it is renewed, milliseconds. */
  readonly lockMs: number;
  /**
   * Until this instant of `performance.now()` the lock is certainly valid, and Redis need not be asked. A send after this
   * instant could be a second one: another worker may have taken the job.
   */
  readonly until: number;
  /** Whether this worker still has the lock. After `until`, asks Redis and renews the lock; false if Redis does not answer. */
  isValid(): boolean | Promise<boolean>;
  /** Saves the job's progress. False if another worker has the job; then nothing is written. */
  save(progress: object): Promise<boolean>;
  /**
   * Puts the job back for `delayMs`, which does not count as an attempt, and saves `progress` if it is given. When the job is
   * due, it goes before new jobs of its kind (high or normal). Rejects, and writes nothing, if the lock was lost or the job was
   * removed. After this, even if it rejects, the processor must throw BullMQ's `DelayedError`.
   */
  putBack(delayMs: number, progress: object | undefined): Promise<void>;
}

/** The error if a result is not written because another worker has the job. */
export const ANOTHER_HAS_IT = 'another worker has the job';

/** Whether an error says that the lock of a job was lost. */
export function isLockLost(error: unknown): boolean {
  return jobOfLostLock(error) !== undefined || (error instanceof Error && error.message === ANOTHER_HAS_IT);
}

/** The part of BullMQ's `Queue` or `Worker` that a lock needs. With a `Worker` of pushpacer, commands use Redis's clock. */
type Jobs = Pick<QueueBase<RedisQueueBackend>, 'getBackend' | 'toKey'>;
type LockedJob = Pick<Job<unknown>, 'id' | 'processedOn'> & Prioritised;

/** What the locks of all jobs of a queue have in common. */
export interface JobLockOptions {
  /** The worker that took the jobs. */
  readonly queue: Jobs;
  readonly lockMs: number;
  /** Called when a job was put back, with the instant of `performance.now()` at which it is due. */
  readonly onPutBack?: (dueAt: number) => void;
}

/** After this share of `lockMs`, Redis is asked whether the lock is still valid. */
const CERTAIN_SHARE = 0.5;
const SAVE = defineQueueScript<number>(new URL('save-progress.lua', import.meta.url), 2);

/**
 * The lock with which a job was taken. Its age counts from `job.processedOn`: when the worker asked for the job, on this
 * machine's clock. If the process was stopped (SIGSTOP, a paused container, a machine that sleeps), `Date.now()` or
 * `performance.now()` may have stood still. So the age is read from both clocks, and the higher age counts.
 */
export function createJobLock(job: LockedJob, token: string, options: JobLockOptions): JobLock {
  return new BullMqJobLock(job, token, options);
}

/** A class instead of closures, because one is created for each pass of a job. */
class BullMqJobLock implements JobLock {
  readonly lockMs: number;
  readonly #job: LockedJob;
  readonly #jobId: string;
  readonly #token: string;
  readonly #options: JobLockOptions;
  #lockedAt: number;
  #until: number;

  constructor(job: LockedJob, token: string, options: JobLockOptions) {
    const { id = '', processedOn = -Infinity } = job;
    this.lockMs = options.lockMs;
    this.#job = job;
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
    const from = performance.now();
    const waitMs = Math.max(0, Math.ceil(delayMs));
    const priority = priorityWhenDue(this.#job);
    // One script writes everything. `job.changePriority` would also search the whole list of jobs without a priority each time.
    await this.#options.queue.getBackend().moveToDelayed(this.#jobId, Date.now(), waitMs, this.#token, {
      skipAttempt: true,
      fieldsToUpdate: { priority, ...(progress && { progress: JSON.stringify(progress) }) },
    });
    this.#options.onPutBack?.(from + waitMs);
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
