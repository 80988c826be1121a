import { setTimeout as sleep } from 'node:timers/promises';
import type { Job } from 'bullmq';
import { createDeadLetters, type DeadLettersOptions, type Died } from '../src/dead-letters/store.ts';
import { repeat, within } from '../src/domain/time.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import { assertBullMq, jobOfLostLock } from '../src/queue/bullmq-internals.ts';
import { measureClockOffset, redisNow, type ClockChange, type ClockOffset } from '../src/queue/clock-offset.ts';
import { createJobLock, type JobLock, type JobLockOptions } from '../src/queue/job-lock.ts';
import { ID_KEPT_S, isUnprioritised, protect, QUEUE } from '../src/queue/names.ts';
import { NotificationWorker, workerOptions, type Place } from '../src/queue/notification-worker.ts';
import { createNewcomerShare, createPrioritiser } from '../src/queue/prioritise.ts';
import { startWaker, type Waker } from '../src/queue/wake.ts';
import type { Connection } from '../src/redis/connection.ts';
import { moveFailedJobs } from './dead-letters.ts';
import { TROUBLE_EVERY_MS, type ShardQueues } from './redis.ts';

/** Takes the jobs of one queue, wakes for jobs that are due, and moves failed jobs to the dead letters. */
export interface Consumer {
  readonly worker: Pick<NotificationWorker, 'concurrency' | 'id' | 'inHand' | 'moves'>;
  readonly clock: Pick<ClockOffset, 'offsetMs' | 'now'>;
  isRunning(): boolean;
  /** Takes no more jobs; resolves when the jobs under way have ended. */
  drain(): Promise<void>;
  /** As `drain`, and then ends everything else. */
  close(): Promise<void>;
}

export interface ConsumerOptions {
  readonly connection: Connection;
  readonly shard: ShardQueues;
  /** The clock of the queue's Redis. */
  readonly clock: ClockOffset;
  readonly concurrency: number;
  readonly lockMs: number;
  readonly maxStalls: number;
  /** About how many outcomes the stream keeps; 0: there is no stream. */
  readonly outcomesMax: number;
  readonly log: Logger;
  readonly process: (job: Job, lock: JobLock, place: Place) => Promise<unknown>;
  /** Called when BullMQ has stored the end of a job. */
  readonly completed: (job: Job) => Promise<void>;
  readonly giveBack: DeadLettersOptions['giveBack'];
  readonly onDiedUnseen: DeadLettersOptions['onDiedUnseen'];
  /** Called with a job that another worker has by now, or may take. */
  readonly onLockLost: LockWatch['lost'];
}

export async function startConsumer(options: ConsumerOptions): Promise<Consumer> {
  const { connection, shard, clock, log } = options;
  const { queue } = shard;
  const waker = startWaker({
    redis: { zrange: (key, start, stop, scores) => connection.zrange(key, String(start), String(stop), scores) },
    delayedKey: queue.toKey('delayed'),
    now: () => clock.now(),
  });
  const trimmer = startTrimmer(queue, connection);
  const prioritiser = createPrioritiser({ queue, redis: connection });
  const newcomers = createNewcomerShare({ queue, redis: connection, now: () => clock.now() });
  const worker = createWorker(options, waker, (job) => {
    if (isUnprioritised(job)) prioritiser.look();
    newcomers.taken(job);
  });
  const { outcomesMax, giveBack, onDiedUnseen } = options;
  const deadLetters = createDeadLetters({ ...shard, outcomesMax, giveBack, onDiedUnseen });
  const failedJobs = moveFailedJobs(worker, deadLetters, log);

  const close = async (): Promise<void> => {
    await worker.close();
    await trimmer.close();
    await Promise.all([prioritiser.close(), newcomers.close()]);
    await failedJobs.stop();
    await waker.close();
  };
  try {
    assertBullMq(worker);
  } catch (error) {
    await close();
    throw error;
  }
  failedJobs.start();
  await worker.waitUntilReady();
  trimmer.look();
  await clock.measured;
  void worker.run();
  return {
    worker,
    clock,
    isRunning: () => worker.isRunning() && worker.closing === undefined,
    drain: () => worker.close(),
    close,
  };
}

/** Logs and counts a job that became a dead letter although no pass decided that. */
export function noteDiedUnseen(
  { outcome, name, ...died }: Died,
  { log, metrics }: { readonly log: Logger; readonly metrics: Pick<Metrics, 'diedUnseen'> },
): void {
  log.warn(
    { ...died, ...outcome },
    outcome === undefined ? `a job named ${name} became a dead letter` : 'dead-lettered',
  );
  if (outcome !== undefined) metrics.diedUnseen(outcome);
}

/** Jobs that ended more than ID_KEPT_S ago are removed this often. */
const TRIM_EVERY_MS = 60_000;
/** How many jobs one command removes, and the pause after it, so that Redis can do other work. */
const TRIMMED_AT_ONCE = 200;
const TRIM_PAUSE_MS = 50;
const CLOSE_MS = 1_000;

/**
 * Removes jobs that ended long ago. BullMQ does that only when another job ends: in a quiet queue ids would stay taken, and
 * texts would stay in Redis.
 */
function startTrimmer(queue: ShardQueues['queue'], connection: Connection) {
  let isClosed = false;
  const trimming = repeat(async () => {
    const until = (await redisNow(queue)) - 1_000 * ID_KEPT_S; // the scores are on Redis's clock
    // BullMQ's `clean` writes an event each time, even if it finds nothing.
    while (!isClosed && (await connection.zcount(queue.toKey('completed'), '-inf', until)) > 0) {
      const gone = await queue.clean(Date.now() - until, TRIMMED_AT_ONCE, 'completed');
      if (gone.length < TRIMMED_AT_ONCE) return;
      await sleep(TRIM_PAUSE_MS);
    }
  }, TRIM_EVERY_MS);
  return {
    look(): void {
      void trimming.now();
    },
    async close() {
      isClosed = true;
      await within(trimming.stop(), CLOSE_MS);
    },
  };
}

function createWorker(options: ConsumerOptions, waker: Waker, onTaken: (job: Job) => void): NotificationWorker {
  const { clock, log, process, completed, onLockLost, lockMs } = options;
  const worker: NotificationWorker = new NotificationWorker(
    QUEUE,
    (job, token = '') => process(job, createJobLock(job, token, lockOptions), worker.place),
    workerOptions({ ...options, prefix: options.shard.prefix }),
    (job, error) => {
      if (jobOfLostLock(error) === undefined) log.warn({ jobId: job.id, err: error }, NOT_ACKED);
      else onLockLost(job.id ?? '');
    },
    () => clock.offsetMs,
  );
  const lockOptions: JobLockOptions = { queue: worker, lockMs, onPutBack: (dueAt) => waker.note(dueAt) };
  const sparing = createSparing(TROUBLE_EVERY_MS);
  worker.on('active', (job) => {
    protect(job);
    onTaken(job);
  });
  worker.on('completed', (job) => void completed(job));
  worker.on('error', (error) => {
    const lost = jobOfLostLock(error);
    if (lost !== undefined) {
      onLockLost(lost);
      return;
    }
    const repeats = sparing(error.message);
    if (repeats !== undefined)
      log.error({ err: error, repeats }, 'Redis failed a command of the queue; it is tried again');
  });
  return worker;
}

const NOT_ACKED =
  'Redis did not take the result of this pass; the job runs again when its lock has run out, and may alert a second time';

/** Estimates the clock of the queue's Redis, and logs if this machine's clock differs. */
export function watchClock(queue: ShardQueues['queue'], log: Logger): ClockOffset {
  return measureClockOffset({ queue, onChange: (change) => logClock(change, log) });
}

function logClock({ isApart, offsetMs }: ClockChange, log: Logger): void {
  if (!isApart) log.info({ offsetMs }, "this machine's clock agrees with Redis's again");
  else
    log.warn(
      { offsetMs },
      "this machine's clock is not Redis's: notifications are due and expire by Redis's, but the age of credentials is judged " +
        'by it; set the clock',
    );
}

/** Gathers the jobs whose locks this worker lost. */
export interface LockWatch {
  lost(jobId: string): void;
  stop(): void;
}

const TICK_MS = 250;
/** A standstill that is shorter than this is logged only if jobs lost their locks because of it. */
const STANDSTILL_MS = 5_000;
/** BullMQ reports each job and each command separately; for this time the reports are gathered into one line. */
const GATHER_MS = 1_000;
const MOST_NAMED = 20;
/** A job that was logged is not logged again for about this time, since several of its commands may fail one after the other. */
const LOGGED_MS = 60_000;

/**
 * Logs in one line when this process stood still (it was stopped, its machine slept, or something kept it busy), and when jobs
 * lost their locks because of that or because Redis did not answer.
 */
export function watchLocks(log: Pick<Logger, 'warn'>): LockWatch {
  const lost = new Set<string>();
  const logged = new Set<string>();
  let loggedAt = -Infinity;
  let last = performance.now();
  let stoodStillMs = 0;
  let gathering: NodeJS.Timeout | undefined;
  const ticking = setInterval(() => {
    const now = performance.now();
    const lateMs = now - last - TICK_MS;
    last = now;
    if (lateMs < GATHER_MS) return;
    logged.clear(); // a job that loses its lock now loses it by another standstill
    stoodStillMs = Math.max(stoodStillMs, lateMs);
    logSoon();
  }, TICK_MS).unref();

  function logSoon(): void {
    gathering ??= setTimeout(logGathered, GATHER_MS).unref();
  }

  function logGathered(): void {
    gathering = undefined;
    const jobIds = [...lost];
    const forMs = Math.round(stoodStillMs);
    lost.clear();
    stoodStillMs = 0;
    if (performance.now() - loggedAt > LOGGED_MS) logged.clear();
    loggedAt = performance.now();
    for (const jobId of jobIds) logged.add(jobId);
    if (jobIds.length === 0 && forMs < STANDSTILL_MS) return;
    const facts = { jobs: jobIds.length, jobIds: jobIds.slice(0, MOST_NAMED) };
    log.warn({ ...(forMs > 0 && { stoodStillMs: forMs }), ...facts }, standstillText(forMs, jobIds.length));
  }

  return {
    lost(jobId) {
      if (logged.has(jobId)) return;
      lost.add(jobId);
      logSoon();
    },
    stop() {
      clearInterval(ticking);
      clearTimeout(gathering);
    },
  };
}

function standstillText(forMs: number, lost: number): string {
  const jobs = lost === 1 ? '1 job' : `${lost} jobs`;
  const went = `${jobs} went to other workers, or will; what this one had sent of them may alert a second time`;
  if (forMs === 0)
    return `locks were not renewed in time, since Redis did not answer or this process was busy: ${went}`;
  const stood = `this process stood still for ${(forMs / 1_000).toFixed(forMs < 10_000 ? 1 : 0)} s`;
  return lost === 0 ? `${stood}: what was due meanwhile is late; it lost no job` : `${stood}: ${went}`;
}
