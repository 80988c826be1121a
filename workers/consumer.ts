import { Queue, type Job } from 'bullmq';
import { createSparing, type Logger } from '../src/observe/log.ts';
import { assertBullMq } from '../src/queue/bullmq-internals.ts';
import { measureClockOffset, type ClockChange, type ClockOffset } from '../src/queue/clock-offset.ts';
import type { Connection } from '../src/redis/connection.ts';
import { createDeadLetters } from '../src/dead-letters/store.ts';
import { createPrioritiser } from '../src/queue/prioritise.ts';
import { isUnprioritised, protect } from '../src/queue/retention.ts';
import { createJobLock, type JobLock, type JobLockOptions } from '../src/queue/job-lock.ts';
import { DEAD_LETTERS, QUEUE } from '../src/queue/names.ts';
import { NotificationWorker, workerOptions, type Place } from '../src/queue/notification-worker.ts';
import { startWaker, type Waker } from '../src/queue/wake.ts';
import { createBurials } from './burials.ts';
import { TROUBLE_EVERY_MS } from './redis.ts';
import { within } from '../src/domain/time.ts';

/** Takes the jobs of one queue, is there when delayed ones are due, and moves those that failed to the dead letters. */
export interface Consumer {
  readonly queue: Queue;
  readonly worker: Pick<NotificationWorker, 'concurrency' | 'id'>;
  readonly clock: Pick<ClockOffset, 'offsetMs'>;
  isRunning(): boolean;
  /** Takes no more jobs; resolves when those under way have ended. */
  drain(): Promise<void>;
  /** As `drain`, and ends all the rest. */
  close(): Promise<void>;
}

export interface ConsumerOptions {
  readonly connection: Connection;
  readonly prefix: string;
  readonly concurrency: number;
  readonly lockMs: number;
  readonly maxStalls: number;
  /** About how many outcomes their stream keeps; 0: there is no stream. */
  readonly outcomesMax: number;
  readonly log: Logger;
  readonly process: (job: Job, lock: JobLock, place: Place) => Promise<unknown>;
}

/** How long the start waits for the first look at Redis's clock. */
const CLOCK_TIMEOUT_MS = 2_000;

export async function startConsumer(options: ConsumerOptions): Promise<Consumer> {
  const { connection, prefix, lockMs, log } = options;
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  for (const side of [queue, deadQueue]) side.on('error', () => undefined); // the worker logs it
  const clock = measureClockOffset({ queue, onChange: (change) => logClock(change, log) });
  const waker = createWaker(connection, queue, clock);
  const prioritiser = createPrioritiser({ queue, redis: connection });
  const worker = createWorker({ ...options, onUnprioritised: () => prioritiser.look() }, clock, {
    queue,
    lockMs,
    onPutBack: (dueAt) => waker.note(dueAt),
  });
  const burials = createBurials(worker, createDeadLetters({ queue, deadQueue, outcomesMax: options.outcomesMax }), log);

  const close = async (): Promise<void> => {
    clock.close();
    await worker.close();
    await prioritiser.close();
    await burials.stop();
    await waker.close();
    await Promise.all([queue.close(), deadQueue.close()]);
  };
  try {
    assertBullMq(queue, worker);
  } catch (error) {
    await close();
    throw error;
  }
  burials.start();
  await worker.waitUntilReady();
  await within(clock.measured, CLOCK_TIMEOUT_MS);
  void worker.run();
  return {
    queue,
    worker,
    clock,
    isRunning: () => worker.isRunning() && worker.closing === undefined,
    drain: () => worker.close(),
    close,
  };
}

function createWaker(connection: Connection, queue: Queue, clock: ClockOffset): Waker {
  return startWaker({
    redis: { zrange: (key, start, stop, scores) => connection.zrange(key, String(start), String(stop), scores) },
    delayedKey: queue.toKey('delayed'),
    offsetMs: () => clock.offsetMs,
  });
}

function createWorker(
  options: ConsumerOptions & { readonly onUnprioritised: () => void },
  clock: ClockOffset,
  lockOptions: JobLockOptions,
): NotificationWorker {
  const { log, process, onUnprioritised } = options;
  const worker: NotificationWorker = new NotificationWorker(
    QUEUE,
    (job, token = '') => process(job, createJobLock(job, token, lockOptions), worker.place),
    workerOptions(options),
    (job, error) => log.warn({ jobId: job.id, err: error }, NOT_ACKED),
    () => clock.offsetMs,
  );
  const sparing = createSparing(TROUBLE_EVERY_MS);
  worker.on('active', (job) => {
    protect(job);
    if (isUnprioritised(job)) onUnprioritised();
  });
  worker.on('error', (error) => {
    const repeats = sparing(error.message);
    if (repeats !== undefined)
      log.error({ err: error, repeats }, 'Redis failed a command of the queue; it is tried again');
  });
  return worker;
}

const NOT_ACKED =
  'Redis did not take the result of this pass; the job runs again when its lock has run out, and may alert a second time';

function logClock({ isApart, offsetMs }: ClockChange, log: Logger): void {
  if (!isApart) log.info({ offsetMs }, "this machine's clock agrees with Redis's again");
  else
    log.warn(
      { offsetMs },
      "this machine's clock is not Redis's: due times are corrected, but expiry and the age of credentials are judged by it; " +
        'set the clock',
    );
}
