import { setTimeout as sleep } from 'node:timers/promises';
import {
  DelayedError,
  UnrecoverableError,
  Worker,
  type Job,
  type Processor,
  type Span,
  type WorkerOptions,
} from 'bullmq';
import type { Connection } from '../redis/connection.ts';
import { insist } from '../redis/not-now.ts';
import { onRedisTime } from './bullmq-internals.ts';
import { KEEP_ALL, KEEP_COMPLETED } from './retention.ts';

export interface WorkerSettings {
  readonly connection: Connection;
  readonly prefix: string;
  readonly concurrency: number;
  /** How long a silent worker keeps its jobs. An outage of Redis longer than this runs the jobs in flight twice. */
  readonly lockMs: number;
  /** How often a job may come back from a worker that went silent: beyond it, it is held to be what ended them. */
  readonly maxStalls: number;
}

/** How often the jobs of dead workers are looked for, at least. They come back after the lock and one or two of these. */
const MAX_STALLED_INTERVAL_MS = 5_000;

/** BullMQ's settings for a consumer of `notifications`. `maxStartedAttempts` stays unset: every requeue is a start. */
export function workerOptions(settings: WorkerSettings): WorkerOptions {
  return {
    connection: settings.connection,
    prefix: settings.prefix,
    concurrency: settings.concurrency,
    autorun: false,
    lockDuration: settings.lockMs,
    stalledInterval: Math.min(MAX_STALLED_INTERVAL_MS, Math.ceil(settings.lockMs / 2)),
    // Counted over the whole life of a job, which may meet several restarts of workers before its slot comes.
    maxStalledCount: settings.maxStalls,
    // The worker that blocks for the next due job may be killed; the others look after this many seconds.
    drainDelay: 1,
    // Redis may come back before the worker's next try; BullMQ waits 15 s otherwise.
    runRetryDelay: 1_000,
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: KEEP_ALL,
  };
}

/** What BullMQ passes along, and nobody here looks at. */
type Rest = [token: string, fetchNextCallback?: () => boolean, span?: Span];

/** How long after a refused one the next job is asked for: BullMQ itself would ask hundreds of times a second. */
const REFUSED_MS = 500;

/**
 * BullMQ takes every error for the job's: where Redis refuses to note that a job is done (it is out of memory, a replica
 * has become the master, the lock has run out), the job would be failed, and an alert that went out would become a dead
 * letter. Here only what the processor itself calls a failure is one. A Redis that cannot now is asked again as long as
 * the lock lasts; after that the job is let go, and comes back by its lock.
 *
 * Due times are on Redis's clock, in Redis and in what BullMQ asks it; `processedOn` of a job is on this machine's.
 */
export class NotificationWorker extends Worker<unknown, unknown> {
  readonly #lockMs: number;
  readonly #offsetMs: () => number;
  /** The latest pass of each job in hand. */
  readonly #latest = new Map<string, Job>();
  readonly #onLetGo: (job: Job, error: Error) => void;

  /**
   * @param onLetGo told of each job whose end could not be noted
   * @param offsetMs Redis's clock minus this machine's, in whole milliseconds
   */
  constructor(
    name: string,
    processor: Processor,
    options: WorkerOptions,
    onLetGo: (job: Job, error: Error) => void,
    offsetMs: () => number = () => 0,
  ) {
    super(name, processor, options, onRedisTime(offsetMs));
    this.#lockMs = options.lockDuration ?? 30_000;
    this.#onLetGo = onLetGo;
    this.#offsetMs = offsetMs;
  }

  /** How many seconds to wait for the next job; `blockUntil` is when the next delayed one is due on Redis's clock, 0 where none is. */
  protected override getBlockTimeout(blockUntil: number): number {
    return super.getBlockTimeout(blockUntil === 0 ? 0 : blockUntil - this.#offsetMs());
  }

  protected override async moveToActive(token: string, name?: string): Promise<Job> {
    try {
      return await this.#taken(() => super.moveToActive(token, name));
    } catch (error) {
      await sleep(REFUSED_MS);
      throw error;
    }
  }

  override async processJob(job: Job, token: string, fetchNextCallback?: () => boolean) {
    const id = job.id ?? '';
    this.#latest.set(id, job);
    try {
      return await super.processJob(job, token, fetchNextCallback);
    } finally {
      this.#keepRenewing(job);
      if (this.#latest.get(id) === job) this.#latest.delete(id);
    }
  }

  /**
   * BullMQ knows whose locks it renews by the job's id alone, and forgets the id when a pass ends. A worker that was stopped
   * for longer than the lock may have taken the job once more by then: that pass is still under way.
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
   * What a job's lock is judged by must be no later than the lock itself, and on this machine's clock: the instant before
   * the job was asked for. BullMQ's own `processedOn` is on Redis's clock, where that is another one.
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
