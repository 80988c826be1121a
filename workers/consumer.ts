import { Queue } from 'bullmq';
import type { Connection } from '../src/queue/connection.ts';
import { createDeadLetters } from '../src/queue/dead-letters.ts';
import { protect } from '../src/queue/foreign.ts';
import { createLease } from '../src/queue/lease.ts';
import { NotificationWorker } from '../src/queue/notification-worker.ts';
import { DEAD_LETTERS, QUEUE } from '../src/queue/names.ts';
import { startWaker, type DelayedSet } from '../src/queue/wake.ts';
import { workerOptions } from '../src/queue/worker-options.ts';
import type { Processor } from '../src/delivery/processor.ts';
import type { Logger } from '../src/observe/log.ts';
import { createSparing } from '../src/observe/sparing.ts';

/** One queue's worker, with what keeps it on time and buries what failed for good. */
export interface Consumer {
  readonly queue: Queue;
  readonly worker: Pick<NotificationWorker, 'concurrency'>;
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
  const waker = startWaker({
    redis: connection as unknown as DelayedSet, // ioredis overloads ZRANGE with its oldest form last, which TypeScript picks
    delayedKey: queue.toKey('delayed'),
  });
  const onDelayed = (dueAt: number): void => {
    waker.note(dueAt);
  };
  const worker = new NotificationWorker(
    QUEUE,
    (job, token = '') => {
      const lease = createLease({ queue, job, token, lockMs });
      return process({ job, token, lease, lockMs, onDelayed });
    },
    workerOptions({ connection, prefix, concurrency, lockMs, maxStalls }),
    (job, error) => {
      log.warn({ jobId: job.id, err: error }, 'the end of a job could not be noted; it comes back by its lock');
    },
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

  bury(deadLetters.sweep());
  await worker.waitUntilReady();
  void worker.run();
  return {
    queue,
    worker,
    isRunning: () => worker.isRunning() && worker.closing === undefined,
    drain: () => worker.close(),
    close: async () => {
      clearInterval(sweeping);
      await worker.close();
      await Promise.all(burials);
      await waker.close();
      await Promise.all([queue.close(), deadQueue.close()]);
    },
  };
}
