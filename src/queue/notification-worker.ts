import { setTimeout as sleep } from 'node:timers/promises';
import {
  DelayedError,
  UnrecoverableError,
  Worker,
  type Job,
  type JobJson,
  type Processor,
  type Span,
  type WorkerOptions,
} from 'bullmq';
import type { Connection } from '../redis/connection.ts';
import { insist } from '../redis/deadline.ts';
import { onRedisTime } from './bullmq-internals.ts';
import { readableFields, readableJob } from './readable.ts';
import { KEEP_ALL, KEEP_COMPLETED } from './names.ts';

export interface WorkerSettings {
  readonly connection: Connection;
  readonly prefix: string;
  readonly concurrency: number;
  /** How long a job lock lasts without renewal. If Redis is away for longer than this, the jobs in flight run twice. */
  readonly lockMs: number;
  /** How often a job may stall, that is lose its lock with its worker. After that the job itself is taken for the cause. */
  readonly maxStalls: number;
}

/** Stalled jobs are looked for at least this often. They come back after their lock's end and one or two of these. */
const MAX_STALLED_INTERVAL_MS = 5_000;

/** BullMQ's settings for a worker. `maxStartedAttempts` stays unset, because every requeue counts as a start. */
export function workerOptions(settings: WorkerSettings): WorkerOptions {
  return {
    connection: settings.connection,
    prefix: settings.prefix,
    concurrency: settings.concurrency,
    autorun: false,
    lockDuration: settings.lockMs,
    stalledInterval: Math.min(MAX_STALLED_INTERVAL_MS, Math.ceil(settings.lockMs / 2)),
    // Counted over the whole life of a job; while it waits for its slot, workers may be restarted several times.
    maxStalledCount: settings.maxStalls,
    // If the worker that waits for the next due job is killed, the others notice after this many seconds.
    drainDelay: 1,
    // After an outage of Redis try again soon; BullMQ's default is 15 s.
    runRetryDelay: 1_000,
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: KEEP_ALL,
  };
}

/** The place of a pass among those that WORKER_CONCURRENCY allows at once. */
export interface Place {
  /** The pass sleeps, and needs no place until it calls what is answered. */
  leave(): () => void;
}

/** So many sleep without a place at most: each takes some kilobytes, and a lock that is renewed. */
const MOST_ASLEEP = 1_000;

/** A job waits at most this long for one that was given before it: that one may never begin (BullMQ could not make a job of it). */
const MOST_BEHIND_MS = 50;

/** Further arguments, which are passed on to BullMQ. */
type Rest = [token: string, fetchNextCallback?: () => boolean, span?: Span];

/** The wait before the next job is asked for after Redis refused: BullMQ itself would ask hundreds of times a second. */
const REFUSED_MS = 500;

/**
 * BullMQ treats every error as a failure of the job. If Redis refuses to write that a job is done (it is out of memory, a failover
 * is under way, the job lock has expired), BullMQ would fail the job, and a delivered alert would become a dead letter. Here a job
 * fails only if the processor says so. While Redis cannot write, it is asked again as long as the job lock lasts. After that the
 * worker gives the job up; another worker takes it when its lock has expired.
 *
 * Due times are on Redis's clock, in Redis and in BullMQ's commands; `processedOn` of a job is on this machine's clock.
 */
export class NotificationWorker extends Worker<unknown, unknown> {
  readonly #lockMs: number;
  readonly #offsetMs: () => number;
  /** The latest pass of each job in hand. */
  readonly #latest = new Map<string, Job>();
  readonly #onLetGo: (job: Job, error: Error) => void;
  readonly #places: number;
  /** What Redis gave to this worker and has not begun, in the order in which it was given. */
  readonly #unbegun = new Set<string>();
  #underWay = 0;
  #asleep = 0;

  /**
   * @param onLetGo called with each job that is given up because Redis did not accept its end
   * @param offsetMs Redis's clock minus this machine's, in whole milliseconds
   */
  constructor(
    name: string,
    processor: Processor,
    options: WorkerOptions,
    onLetGo: (job: Job, error: Error) => void,
    offsetMs: () => number = () => 0,
  ) {
    // BullMQ asks for no job before `run`, when the fields are there.
    super(
      name,
      processor,
      options,
      onRedisTime(offsetMs, (jobId) => this.#unbegun.add(jobId), readableFields),
    );
    this.#lockMs = options.lockDuration ?? 30_000;
    this.#onLetGo = onLetGo;
    this.#offsetMs = offsetMs;
    this.#places = this.concurrency;
    this.#setConcurrency();
  }

  /** How many jobs it has now, and how many of them sleep without a place. */
  get inHand(): { readonly all: number; readonly asleep: number } {
    return { all: this.#underWay, asleep: this.#asleep };
  }

  readonly place: Place = {
    leave: () => {
      if (this.#asleep >= MOST_ASLEEP) return () => undefined;
      this.#asleep += 1;
      this.#setConcurrency();
      // If all sleep, nothing else makes BullMQ look at its concurrency again.
      const isIdle = this.#asleep === this.#underWay && this.closing === undefined && !this.isPaused();
      if (isIdle) void this.pause(true).then(() => this.resume());
      return () => {
        this.#asleep -= 1;
        this.#setConcurrency();
      };
    },
  };

  /**
   * Passes that sleep do not count. And BullMQ asks Redis for one job after the other until it has as many as its concurrency, and
   * begins none of them before: with 200 places and a Redis that is 4 ms away, a job that is due was begun 0.3 s late. So it is
   * told only of the next place, as long as there are more.
   */
  #setConcurrency(): void {
    this.concurrency = Math.min(this.#places + this.#asleep, this.#underWay + 1);
  }

  /** How many seconds to wait for the next job. `blockUntil`: when the next delayed job is due on Redis's clock; 0 for none. */
  protected override getBlockTimeout(blockUntil: number): number {
    return super.getBlockTimeout(blockUntil === 0 ? 0 : blockUntil - this.#offsetMs());
  }

  protected override createJob(json: JobJson, jobId: string): Job {
    return readableJob(json, (readable) => super.createJob(readable, jobId));
  }

  protected override async moveToActive(token: string, name?: string): Promise<Job> {
    try {
      return await this.#taken(() => super.moveToActive(token, name));
    } catch (error) {
      await sleep(REFUSED_MS);
      throw error;
    }
  }

  override async processJob(job: Job, token: string) {
    const id = job.id ?? '';
    this.#underWay += 1;
    this.#setConcurrency(); // before the first await: BullMQ looks at it then
    try {
      await this.#begin(id);
      this.#latest.set(id, job);
      return await super.processJob(job, token, () => this.#underWay <= this.#places + this.#asleep);
    } finally {
      this.#underWay -= 1;
      this.#setConcurrency();
      this.#keepRenewing(job);
      if (this.#latest.get(id) === job) this.#latest.delete(id);
    }
  }

  /** Waits for the jobs that Redis gave before this one. They begin within milliseconds, or never. */
  async #begin(id: string): Promise<void> {
    const isFirst = (): boolean => !this.#unbegun.has(id) || this.#unbegun.values().next().value === id;
    const deadline = performance.now() + MOST_BEHIND_MS;
    while (!isFirst() && performance.now() < deadline) await sleep(1);
    while (!isFirst()) this.#unbegun.delete(this.#unbegun.values().next().value ?? '');
    this.#unbegun.delete(id);
  }

  /**
   * BullMQ's list of locks to renew has only job ids, and an id leaves it when a pass ends. But a worker that was stopped for longer
   * than the lock may have taken the same job again: then the newer pass is still under way and needs its lock.
   */
  #keepRenewing({ id = '', token }: Job): void {
    const latest = this.#latest.get(id);
    if (latest === undefined || latest.token === token) return;
    this.lockManager.trackJob(id, latest.token ?? '', latest.processedOn ?? Date.now());
  }

  protected override handleCompleted(result: unknown, job: Job, ...rest: Rest): Promise<Job> {
    this.#keepRenewing(job);
    return insist(() => this.#taken(() => super.handleCompleted(result, job, ...rest)), this.#lockMs);
  }

  protected override async handleFailed(error: Error, job: Job, ...rest: Rest): Promise<Job> {
    this.#keepRenewing(job);
    const isVerdict = error instanceof DelayedError || error instanceof UnrecoverableError;
    if (isVerdict) return insist(() => this.#taken(() => super.handleFailed(error, job, ...rest)), this.#lockMs);
    this.#onLetGo(job, error);
    return super.handleFailed(new DelayedError(), job, ...rest);
  }

  /**
   * Sets `processedOn` to the instant before the job was asked for, on this machine's clock. The age of a lock is counted from it, so
   * it must not be later than the lock. BullMQ's own value is on Redis's clock.
   */
  #taken<T extends Job | undefined>(take: () => Promise<T>): Promise<T> {
    if (this.#offsetMs() === 0) return take();
    const askedAt = Date.now();
    return take().then((job) => {
      if (job !== undefined) job.processedOn = askedAt;
      return job;
    });
  }
}
