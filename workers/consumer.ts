import { Queue } from 'bullmq';
import { assertBullMq } from '../src/queue/bullmq-internals.ts';
import { measureClockOffset, type ClockChange, type ClockOffset } from '../src/queue/clock-offset.ts';
import type { Connection } from '../src/queue/connection.ts';
import { createDeadLetters } from '../src/queue/dead-letters.ts';
import { protect } from '../src/queue/foreign.ts';
import { createJobLock } from '../src/queue/job-lock.ts';
import { NotificationWorker } from '../src/queue/notification-worker.ts';
import { DEAD_LETTERS, QUEUE } from '../src/queue/names.ts';
import { startWaker } from '../src/queue/wake.ts';
import { workerOptions } from '../src/queue/worker-options.ts';
import type { Processor } from '../src/delivery/processor.ts';
import type { Logger } from '../src/observe/log.ts';
import { createSparing } from '../src/observe/sparing.ts';
import { within } from './within.ts';

/** One queue's worker, with what keeps it on time and buries what failed for good. */
export interface Consumer {
  readonly queue: Queue;
  readonly worker: Pick<NotificationWorker, 'concurrency'>;
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
  readonly log: Logger;
  readonly process: Processor;
}

/** How often the failed set is looked through for what a worker that died left there. */
const SWEEP_EVERY_MS = 15_000;
/** How often the same trouble is told: a Redis that is away or full makes it many times a second. */
export const TROUBLE_EVERY_MS = 5_000;
/** How long the start waits for the first look at Redis's clock. */
const CLOCK_TIMEOUT_MS = 2_000;

export async function startConsumer({
  connection,
  prefix,
  concurrency,
  lockMs,
  maxStalls,
  log,
  process,
}: ConsumerOptions): Promise<Consumer> {
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  const deadLetters = createDeadLetters({ queue, deadQueue });
  const clock = measureClockOffset({ queue, onChange: (change) => tellClock(change, log) });
  const offsetMs = (): number => clock.offsetMs;
  const waker = startWaker({
    redis: { zrange: (key, start, stop, scores) => connection.zrange(key, String(start), String(stop), scores) },
    delayedKey: queue.toKey('delayed'),
    offsetMs,
  });
  const onPutBack = (dueAt: number): void => {
    waker.note(dueAt);
  };
  const lockOptions = { queue, lockMs, onPutBack };
  const worker = new NotificationWorker(
    QUEUE,
    (job, token = '') => process(job, createJobLock(job, token, lockOptions)),
    workerOptions({ connection, prefix, concurrency, lockMs, maxStalls }),
    (job, error) => {
      log.warn(
        { jobId: job.id, err: error },
        'Redis did not take the result of this pass; the job runs again when its lock has run out, and may alert a second time',
      );
    },
    offsetMs,
  );

  const burials = new Set<Promise<unknown>>();
  const bury = (work: Promise<unknown>): void => {
    const tracked = work.catch((error: unknown) => {
      log.warn({ err: error }, 'dead letters stay in the failed set until the next sweep');
    });
    burials.add(tracked);
    void tracked.finally(() => burials.delete(tracked));
  };
  worker.on('active', protect);
  worker.on('failed', (job) => {
    if (job?.id !== undefined) bury(deadLetters.bury(job.id));
  });
  const sparing = createSparing(TROUBLE_EVERY_MS);
  worker.on('error', (error) => {
    const untold = sparing(error.message);
    if (untold !== undefined) log.error({ err: error, untold }, 'the worker has trouble with Redis');
  });
  for (const side of [queue, deadQueue]) side.on('error', () => undefined); // the worker tells
  const sweeping = setInterval(() => {
    bury(deadLetters.sweep());
  }, SWEEP_EVERY_MS);

  const close = async (): Promise<void> => {
    clearInterval(sweeping);
    clock.close();
    await worker.close();
    await Promise.all(burials);
    await waker.close();
    await Promise.all([queue.close(), deadQueue.close()]);
  };
  try {
    assertBullMq(queue, worker);
  } catch (error) {
    await close();
    throw error;
  }

  bury(deadLetters.sweep());
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

function tellClock({ isApart, offsetMs }: ClockChange, log: Logger): void {
  if (!isApart) log.info({ offsetMs }, "this machine's clock agrees with Redis's again");
  else
    log.warn(
      { offsetMs },
      "this machine's clock is not Redis's: due times are corrected, but expiry and the age of credentials are judged by it",
    );
}
