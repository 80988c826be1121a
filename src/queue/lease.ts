import type { Job, Queue } from 'bullmq';
import { lockKeyOf } from './bullmq-internals.ts';
import { defineQueueScript } from '../redis/scripts.ts';

/** A worker's hold on a job: BullMQ's lock, which others take over where it was not renewed in time. */
export interface Lease {
  /**
   * Until when the job certainly is ours, without asking Redis: an instant of `performance.now()`. What is sent later might
   * be sent a second time, by whoever has the job then.
   */
  readonly until: number;
  /** Whether the job is still ours. Asks Redis only where it may not be, and then renews the lock; false also without an answer. */
  holds(): boolean | Promise<boolean>;
  /** Keeps the job's progress; false where the job is somebody else's by now, and nothing was written. */
  save(progress: object): Promise<boolean>;
}

export interface LeaseOptions {
  /** Any queue on the job's prefix; its connection is used. */
  readonly queue: Queue;
  readonly job: Pick<Job, 'id' | 'processedOn' | 'extendLock'>;
  readonly token: string;
  readonly lockMs: number;
}

/** Beyond this share of its length, a lock is looked at before it is relied on. */
const SURE = 0.5;
const SAVE = defineQueueScript<number>(new URL('save-progress.lua', import.meta.url), 2);

/**
 * The lease that came with a job. NotificationWorker notes when it asked for the job (`processedOn`, this machine's clock),
 * and Redis began the lock after that. A process that is stopped (SIGSTOP, a paused container, a machine that sleeps) does not feel
 * the time that passes; both clocks tell it, and the one that tells more is believed.
 */
export function createLease(options: LeaseOptions): Lease {
  return new JobLease(options);
}

/** A class, since there is one for each pass of a job. */
class JobLease implements Lease {
  readonly #options: LeaseOptions;
  #grantedAt: number;
  #until: number;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#grantedAt = options.job.processedOn ?? -Infinity;
    this.#until = performance.now() - (Date.now() - this.#grantedAt) + options.lockMs * SURE;
  }

  get until(): number {
    return this.#until;
  }

  holds(): boolean | Promise<boolean> {
    return this.#isSure() || this.#renew();
  }

  async save(progress: object): Promise<boolean> {
    const { queue, job, token } = this.#options;
    const jobId = job.id ?? '';
    const keys = [lockKeyOf(queue, jobId), queue.toKey(jobId)];
    return (await SAVE(queue, [...keys, token, JSON.stringify(progress)])) === 1;
  }

  #isSure(): boolean {
    const age = Date.now() - this.#grantedAt;
    return performance.now() < this.#until && age >= 0 && age < this.#options.lockMs * SURE;
  }

  async #renew(): Promise<boolean> {
    const { job, token, lockMs } = this.#options;
    const askedAt = { wall: Date.now(), steady: performance.now() };
    const extended = await job.extendLock(token, lockMs).catch(() => 0);
    if (extended !== 1) return false;
    this.#grantedAt = askedAt.wall;
    this.#until = askedAt.steady + lockMs * SURE;
    return this.#isSure();
  }
}
