import { setTimeout as sleep } from 'node:timers/promises';
import {
  DelayedError,
  isNotConnectionError,
  UnrecoverableError,
  Worker,
  type BackendFactory,
  type Job,
  type Processor,
  type RedisQueueBackend,
  type WorkerOptions,
} from 'bullmq';
import type { Connection } from '../redis/connection.ts';
import { insist } from '../redis/deadline.ts';
import { defineQueueScript } from '../redis/scripts.ts';
import { jobOfLostLock, lockKeyOf, lockNotRenewed, onRedisTime, STALLED_TOO_OFTEN } from './bullmq-internals.ts';
import { KEEP_ALL, KEEP_COMPLETED } from './names.ts';

export interface WorkerSettings {
  readonly connection: Connection;
  readonly prefix: string;
  readonly concurrency: number;
  /** How long a job lock lasts without renewal. If Redis does not answer for longer than this, the jobs in hand run twice. */
  readonly lockMs: number;
  /**
   * How often a job may stall, that is lose its lock because its worker died. After that the job itself counts as the cause,
   * and fails.
   */
  readonly maxStalls: number;
}

/** Stalled jobs are looked for at least this often. A job comes back one or two of these intervals after its lock has ended. */
const MAX_STALLED_INTERVAL_MS = 5_000;

/** BullMQ's settings for a worker. `maxStartedAttempts` stays unset, because it would count each time that a job is put back. */
export function workerOptions(settings: WorkerSettings): WorkerOptions {
  return {
    connection: settings.connection,
    prefix: settings.prefix,
    concurrency: settings.concurrency,
    autorun: false,
    lockDuration: settings.lockMs,
    skipLockRenewal: true, // NotificationWorker renews the locks
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

/** The place of a pass among the WORKER_CONCURRENCY places of the worker. */
export interface Place {
  /** The pass sleeps, or waits long for a stream, and needs no place. Call the returned function when that is over. */
  leave(): () => void;
  /**
   * The pass puts its job back for another worker, for the `times`-th time. For some seconds, this worker then begins to wait
   * for jobs later than other workers.
   */
  giveWay(times: number): void;
}

/**
 * Redis gives a job to the worker that has waited longest. A worker that puts a job back waits again before slower workers do:
 * on an idle queue it would get the same job each time, for hours. So it begins to wait this much later: `first`, doubled each
 * time, up to `most`. Jobs that only this worker can take are late by this time.
 */
const GIVE_WAY_MS = { first: 10, most: 160 } as const;
/** A worker gives way for this long after it last put a job back for another worker. */
const GIVE_WAY_FOR_MS = 5_000;

/** At most this many passes sleep without a place: each of them needs some kilobytes, and a lock that is renewed. */
const MOST_ASLEEP = 1_000;
/** A job waits at most this long for jobs that Redis gave earlier. These may never begin, if BullMQ could not build them. */
const MOST_BEHIND_MS = 50;
/** After Redis refused to give a job, the worker asks again after this; BullMQ would ask hundreds of times a second. */
const REFUSED_MS = 500;
/** After the connection was closed, the worker waits this long before it writes the end of a job again. */
const RECONNECT_MS = 1_000;

type TakenJob = Pick<Job, 'id' | 'token' | 'attemptsStarted'>;
const RETAKE = defineQueueScript<number>(new URL('retake-lock.lua', import.meta.url), 4);

/** Called when this worker gives up writing the end of a job. Another worker takes the job when its lock has expired. */
type OnLetGo = (job: Pick<Job, 'id'>, error: Error) => void;

/**
 * BullMQ treats every error as a failure of the job. If Redis refuses to write that a job is done (it is out of memory, a
 * failover is under way, the job lock has expired), BullMQ would fail the job, and a delivered alert would become a dead
 * letter. In this class a job fails only if the processor says so. While Redis cannot write, the write is repeated as long as
 * the job lock lasts. If the lock is gone and nobody else has begun the job, the lock is taken anew. Else the worker gives the
 * job up.
 *
 * Only public members of BullMQ are overridden or replaced: `processJob`, the processor, and methods of the backend.
 */
export class NotificationWorker extends Worker<unknown, unknown> {
  /** The latest pass of each job whose processor runs. The locks of these passes are renewed. */
  readonly #passes = new Map<string, { readonly token: string; renewedAt: number }>();
  readonly #places: number;
  /** Jobs that Redis gave to this worker and that have not begun, in the order in which Redis gave them. */
  readonly #unbegun = new Set<string>();
  #underWay = 0;
  #asleep = 0;
  #moves = 0;
  #givesWay = { ms: 0, until: -Infinity };

  /** @param offsetMs Redis's clock minus this machine's, in whole milliseconds */
  constructor(
    name: string,
    processor: Processor,
    options: WorkerOptions,
    onLetGo: OnLetGo,
    offsetMs: () => number = () => 0,
  ) {
    const lockMs = options.lockDuration ?? 30_000;
    // The callback uses a field that exists only after `super`. That is safe: BullMQ asks for no job before `run`.
    const open = onRedisTime(offsetMs, (jobId) => this.#unbegun.add(jobId));
    const isClosing = (): boolean => this.closing !== undefined;
    const onAsked = (): void => void (this.#moves += 1);
    const process: Processor = (job, token) => this.#process(job, token ?? '', processor, onLetGo);
    const givesWayMs = (): number => (performance.now() < this.#givesWay.until ? this.#givesWay.ms : 0);
    const retake = (job: TakenJob): Promise<boolean> => this.#retake(job, lockMs);
    super(name, process, options, insisting(open, { lockMs, retake, isClosing, onLetGo, onAsked, givesWayMs }));
    this.#places = this.concurrency;
    this.#setConcurrency();
    this.#renewLocks(lockMs);
  }

  /** How many jobs this worker has now, how many of them sleep or wait without a place, and how many places there are. */
  get inHand(): { readonly all: number; readonly asleep: number; readonly places: number } {
    return { all: this.#underWay, asleep: this.#asleep, places: this.#places };
  }

  /**
   * Grows with each request for a job that Redis answered or refused, with each job that begins, and with each place that
   * becomes free. While there is a free place, BullMQ asks again within 30 s, even if the queue is empty, paused or limited. So
   * if this number does not grow for longer, the worker takes no jobs any more.
   */
  get moves(): number {
    return this.#moves;
  }

  readonly place: Place = {
    leave: () => {
      if (this.#asleep >= MOST_ASLEEP) return () => undefined;
      this.#asleep += 1;
      this.#moves += 1;
      this.#setConcurrency();
      // If all passes sleep, nothing else makes BullMQ look at its concurrency again.
      const isIdle = this.#asleep === this.#underWay && this.closing === undefined && !this.isPaused();
      if (isIdle) void this.pause(true).then(() => this.resume());
      return () => {
        this.#asleep -= 1;
        this.#setConcurrency();
      };
    },
    giveWay: (times) => {
      const ms = Math.min(GIVE_WAY_MS.first * 2 ** (times - 1), GIVE_WAY_MS.most);
      const now = performance.now();
      const before = now < this.#givesWay.until ? this.#givesWay.ms : 0;
      this.#givesWay = { ms: Math.max(ms, before), until: now + GIVE_WAY_FOR_MS };
    },
  };

  /**
   * Sets BullMQ's concurrency to one more than the jobs under way, as long as there are places; passes that sleep need no
   * place. BullMQ fetches as many jobs as its concurrency, one after the other, before it begins the first: with 200 places and
   * a Redis that is 4 ms away, a due job began 0.3 s late.
   */
  #setConcurrency(): void {
    this.concurrency = Math.min(this.#places + this.#asleep, this.#underWay + 1);
  }

  override async processJob(job: Job, token: string) {
    this.#underWay += 1;
    this.#moves += 1;
    this.#setConcurrency(); // before the first await: BullMQ reads the concurrency then
    try {
      await this.#begin(job.id ?? '');
      // BullMQ's check of stalled jobs writes this failure into the job. A reshard also counts stalls, but does not know the
      // limit.
      if (job.stalledCounter > (this.opts.maxStalledCount ?? Infinity)) job.deferredFailure = STALLED_TOO_OFTEN;
      return await super.processJob(job, token, () => this.#underWay <= this.#places + this.#asleep);
    } finally {
      this.#underWay -= 1;
      this.#moves += 1;
      this.#setConcurrency();
    }
  }

  /** Waits until the jobs that Redis gave before this one have begun. They begin within milliseconds, or never. */
  async #begin(id: string): Promise<void> {
    const isFirst = (): boolean => !this.#unbegun.has(id) || this.#unbegun.values().next().value === id;
    const deadline = performance.now() + MOST_BEHIND_MS;
    while (!isFirst() && performance.now() < deadline) await sleep(1);
    while (!isFirst()) this.#unbegun.delete(this.#unbegun.values().next().value ?? '');
    this.#unbegun.delete(id);
  }

  async #process(job: Job, token: string, processor: Processor, onLetGo: OnLetGo): Promise<unknown> {
    const id = job.id ?? '';
    const pass = { token, renewedAt: job.processedOn ?? Date.now() };
    this.#passes.set(id, pass);
    try {
      return (await processor(job, token)) as unknown;
    } catch (error) {
      if (error instanceof DelayedError || error instanceof UnrecoverableError) throw error;
      onLetGo(job, error instanceof Error ? error : new Error(String(error)));
      throw new DelayedError();
    } finally {
      // If this process was stopped for longer than the lock, it may have taken the same job again: the later pass still needs
      // its lock.
      if (this.#passes.get(id) === pass) this.#passes.delete(id);
    }
  }

  /**
   * Takes the lock of a job anew that was lost while this worker had the job. False if another worker may have begun the job.
   * Locks end by Redis's clock: if that is set forward, all of them are gone at once.
   */
  async #retake({ id = '', token = '', attemptsStarted }: TakenJob, lockMs: number): Promise<boolean> {
    const keys = [lockKeyOf(this, id), ...[id, 'active', 'stalled'].map((key) => this.toKey(key))];
    return (await RETAKE(this, [...keys, token, lockMs, id, attemptsStarted])) === 1;
  }

  /**
   * Renews the locks from time to time, until the worker is closed. BullMQ's own renewal knows a job by its id only, and stops
   * when any pass of that job ends.
   */
  #renewLocks(lockMs: number): void {
    const everyMs = lockMs / 4;
    let renewing: Promise<void> | undefined;
    const renew = async (): Promise<void> => {
      const now = Date.now();
      const due = [...this.#passes].filter(([, { renewedAt }]) => Math.abs(now - renewedAt) >= everyMs / 2); // the clock may be set back
      if (due.length === 0) return;
      for (const [, pass] of due) pass.renewedAt = now;
      const [ids, tokens] = [due.map(([id]) => id), due.map(([, { token }]) => token)];
      for (const id of await this.extendJobLocks(ids, tokens, lockMs)) this.emit('error', lockNotRenewed(id));
    };
    const timer = setInterval(() => {
      renewing ??= renew()
        .catch((error: unknown) => void this.emit('error', error as Error))
        .finally(() => (renewing = undefined));
    }, everyMs).unref();
    this.once('closed', () => clearInterval(timer));
  }
}

interface Insisting {
  readonly lockMs: number;
  /** Takes the lock of a job anew. False if another worker may have begun the job. */
  readonly retake: (job: TakenJob) => Promise<boolean>;
  readonly isClosing: () => boolean;
  readonly onLetGo: OnLetGo;
  /** Called when Redis has answered or refused an ask for a job. */
  readonly onAsked: () => void;
  /** How much later the worker begins to wait for a job, in milliseconds (GIVE_WAY_MS). */
  readonly givesWayMs: () => number;
}

/**
 * A backend that repeats the write of a job's end while Redis refuses it. If it gives up, it throws a DelayedError: then BullMQ
 * leaves the job as it is, and takes the next one.
 */
function insisting(
  open: BackendFactory<RedisQueueBackend>,
  { lockMs, retake, isClosing, onLetGo, onAsked, givesWayMs }: Insisting,
): BackendFactory<RedisQueueBackend> {
  async function end<T>(job: TakenJob, write: () => Promise<T>): Promise<T> {
    for (let isRetaken = false; ;) {
      try {
        return await insist(write, lockMs);
      } catch (thrown) {
        const error = thrown as Error;
        if (!isRetaken && jobOfLostLock(error) !== undefined) {
          isRetaken = await retake(job).catch(() => false);
          if (isRetaken) continue;
        }
        if (isNotConnectionError(error) || isClosing()) {
          onLetGo(job, error);
          throw Object.assign(new DelayedError(error.message), { cause: error });
        }
        await sleep(RECONNECT_MS);
      }
    }
  }
  return (...options) => {
    const backend = open(...options);
    const moveToActive = backend.moveToActive.bind(backend);
    const moveToCompleted = backend.moveToCompleted.bind(backend);
    const moveToFailed = backend.moveToFailed.bind(backend);
    const waitForJob = backend.waitForJob.bind(backend);
    backend.moveToActive = (...args) =>
      moveToActive(...args)
        .catch(async (error: unknown) => {
          await sleep(REFUSED_MS);
          throw error;
        })
        .finally(onAsked);
    backend.waitForJob = async (seconds) => {
      const ms = givesWayMs();
      if (ms > 0) await sleep(ms);
      return waitForJob(seconds);
    };
    backend.moveToCompleted = (job, ...args) => end(job as typeof job & TakenJob, () => moveToCompleted(job, ...args));
    backend.moveToFailed = (job, ...args) => end(job as typeof job & TakenJob, () => moveToFailed(job, ...args));
    return backend;
  };
}
