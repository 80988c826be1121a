import type { Job, Queue } from 'bullmq';
import { lockKeyOf } from './bullmq-internals.ts';
import { requeue } from './delay.ts';
import { defineQueueScript } from '../redis/scripts.ts';

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
  /** Puts the job back for `delayMs`, at no attempt, and saves its progress. Rejects where another worker has the job. */
  putBack(delayMs: number, progress: object): Promise<void>;
}

/** BullMQ's errors for a job whose lock ran out, or is another worker's by now. */
const LOST = /^(?:could not renew lock|Missing lock|Lock mismatch) for job (\S+?)\.?(?: |$)/;

/** The job whose lock was lost, if that is what BullMQ's error says. */
export function jobOfLostLock(error: unknown): string | undefined {
  return error instanceof Error ? LOST.exec(error.message)?.[1] : undefined;
}

/** The error of a result that is not written because another worker has the job. */
export const ANOTHER_HAS_IT = 'another worker has the job';

/** Whether an error says that the lock of a job was lost. */
export function isLockLost(error: unknown): boolean {
  return jobOfLostLock(error) !== undefined || (error instanceof Error && error.message === ANOTHER_HAS_IT);
}

type LockedJob = Pick<Job, 'id' | 'processedOn' | 'extendLock'>;

/** The same for all jobs of a queue. */
export interface JobLockOptions {
  /** Any queue on the jobs' prefix; its connection is used. */
  readonly queue: Queue;
  readonly lockMs: number;
  /** Called when a job was put back, with the instant at which it is due: epoch milliseconds on this machine's clock. */
  readonly onPutBack?: (dueAt: number) => void;
}

/** After this share of its time a lock is not relied on without asking Redis. */
const CERTAIN_SHARE = 0.5;
const SAVE = defineQueueScript<number>(new URL('save-progress.lua', import.meta.url), 2);

/**
 * The lock that a job was taken with. It began after `job.processedOn`: NotificationWorker writes there when it asked for
 * the job, on this machine's clock. A process that is stopped (SIGSTOP, a paused container, a machine that sleeps) may find
 * that one of its two clocks stood still, so the age of the lock is read from both, and the older age counts.
 */
export function createJobLock(job: LockedJob, token: string, options: JobLockOptions): JobLock {
  return new BullMqJobLock(job, token, options);
}

/** A class, because one is created for each pass of a job. */
class BullMqJobLock implements JobLock {
  readonly lockMs: number;
  readonly #job: LockedJob;
  readonly #token: string;
  readonly #options: JobLockOptions;
  #lockedAt: number;
  #until: number;

  constructor(job: LockedJob, token: string, options: JobLockOptions) {
    this.lockMs = options.lockMs;
    this.#job = job;
    this.#token = token;
    this.#options = options;
    this.#lockedAt = job.processedOn ?? -Infinity;
    this.#until = performance.now() - (Date.now() - this.#lockedAt) + options.lockMs * CERTAIN_SHARE;
  }

  get until(): number {
    return this.#until;
  }

  isValid(): boolean | Promise<boolean> {
    return this.#isCertain() || this.#renew();
  }

  async save(progress: object): Promise<boolean> {
    const { queue } = this.#options;
    const jobId = this.#job.id ?? '';
    const keys = [lockKeyOf(queue, jobId), queue.toKey(jobId)];
    return (await SAVE(queue, [...keys, this.#token, JSON.stringify(progress)])) === 1;
  }

  async putBack(delayMs: number, progress: object): Promise<void> {
    const dueAt = await requeue(this.#job, this.#token, delayMs, progress);
    this.#options.onPutBack?.(dueAt);
  }

  #isCertain(): boolean {
    const ageMs = Date.now() - this.#lockedAt;
    return performance.now() < this.#until && ageMs >= 0 && ageMs < this.lockMs * CERTAIN_SHARE;
  }

  async #renew(): Promise<boolean> {
    const asked = { wall: Date.now(), steady: performance.now() }; // before the ask: the lock begins after it
    const renewed = await this.#job.extendLock(this.#token, this.lockMs).catch(() => 0);
    if (renewed !== 1) return false;
    this.#lockedAt = asked.wall;
    this.#until = asked.steady + this.lockMs * CERTAIN_SHARE;
    return this.#isCertain();
  }
}
