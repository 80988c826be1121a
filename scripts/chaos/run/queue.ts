import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { createDeadLetters, type StoredDeadLetter } from '../../../src/dead-letters/store.ts';
import { readProgress, type Progress } from '../../../src/delivery/context.ts';
import { createRedisLimiter } from '../../../src/limiter/redis/redis-limiter.ts';
import { lockKeyOf } from '../../../src/queue/bullmq-internals.ts';
import { DEAD_LETTERS, notificationIdOf, QUEUE } from '../../../src/queue/names.ts';
import { connectWorker } from '../../../src/redis/connection.ts';
import { POLICY } from '../plan/workload.ts';
import { quietNow } from '../../support/quiet-now.ts';
import type { Progress as Bar } from '../../support/progress.ts';

/** How a job ended, as BullMQ keeps it. */
export interface Completed {
  /** The notification's. */
  readonly id: string;
  readonly outcome: string;
  /** The notification that goes in its place. */
  readonly by?: string;
  readonly progress: Progress;
}

/** How the jobs ended, read from the queue. */
export interface Ends {
  readonly completed: readonly Completed[];
  readonly dead: readonly StoredDeadLetter[];
  /** Notifications whose job has not ended. */
  readonly queued: readonly string[];
}

/** The queue, seen from outside of the workers. */
export interface ChaosQueue {
  readonly prefix: string;
  readonly queue: Queue;
  /** Notification → holder of its job lock ('' for none), for all jobs that workers have now. */
  inHand(): Promise<Map<string, string>>;
  /** The same notifications; from that instant on Redis pauses all clients for a while, because it will be killed. */
  inHandAtTheEnd(): Promise<string[]>;
  /** Jobs that have not ended: `failed` ones are not dead letters yet. */
  open(): Promise<number>;
  settled(): Promise<number>;
  ends(): Promise<Ends>;
  /** It is quiet for these recipients from now on. */
  quiet(recipientIds: readonly string[]): Promise<void>;
  cutClients(): Promise<void>;
  pause(ms: number): Promise<void>;
  close(): Promise<void>;
}

const OPEN = ['wait', 'active', 'delayed', 'prioritized', 'failed'] as const;
const PAGE = 2_000;

export function openChaosQueue(redisUrl: string): ChaosQueue {
  const prefix = '{pushpacer-chaos}';
  const connection = connectWorker({ redisUrl });
  const control = new Redis(redisUrl, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  // Redis is killed on purpose.
  for (const one of [connection, control]) one.on('error', () => undefined);
  for (const one of [queue, deadQueue]) one.on('error', () => undefined);
  const deadLetters = createDeadLetters({ queue, deadQueue });
  const limiter = createRedisLimiter({ redis: control, policy: POLICY, prefix });
  const active = queue.toKey('active');

  return {
    prefix,
    queue,
    async inHand() {
      const jobIds = await control.lrange(active, 0, -1);
      const tokens = jobIds.length === 0 ? [] : await control.mget(jobIds.map((jobId) => lockKeyOf(queue, jobId)));
      return new Map(jobIds.map((jobId, index) => [notificationIdOf(jobId), holderOf(tokens[index])]));
    },
    async inHandAtTheEnd() {
      const answers = await control.multi().lrange(active, 0, -1).call('CLIENT', 'PAUSE', 3_000, 'ALL').exec();
      return (answers?.[0]?.[1] as string[]).map(notificationIdOf);
    },
    open: () => queue.getJobCountByTypes(...OPEN),
    settled: async () => (await queue.getCompletedCount()) + (await deadLetters.count()),
    ends: async () => ({
      completed: (await everyPage((from, to) => queue.getJobs(['completed'], from, to))).map((job) => ({
        id: notificationIdOf(job.id ?? ''),
        outcome: 'none',
        ...(job.returnvalue as { outcome?: string; by?: string } | null),
        progress: readProgress(job.progress),
      })),
      dead: await everyPage((from, to) => deadLetters.page(from, to - from + 1)),
      queued: (await queue.getJobs([...OPEN])).map(({ id = '' }) => notificationIdOf(id)),
    }),
    async quiet(recipientIds) {
      const hours = quietNow(Date.now());
      await Promise.all(recipientIds.map((recipientId) => limiter.quiet(recipientId, hours)));
    },
    async cutClients() {
      await control.call('CLIENT', 'KILL', 'TYPE', 'normal');
    },
    async pause(ms) {
      await control.call('CLIENT', 'PAUSE', ms, 'ALL');
    },
    async close() {
      // First, because without Redis a call that waits for an answer would wait for ever.
      for (const one of [connection, control]) one.disconnect();
      await Promise.all([queue.close(), deadQueue.close()]);
    },
  };
}

/** The token of a lock is `<the worker's id>:<a number>`. */
function holderOf(token: string | null | undefined): string {
  return token?.split(':')[0] ?? '';
}

async function everyPage<T>(page: (from: number, to: number) => Promise<T[]>): Promise<T[]> {
  const all: T[] = [];
  for (;;) {
    const found = await page(all.length, all.length + PAGE - 1);
    all.push(...found);
    if (found.length < PAGE) return all;
  }
}

const POLL_MS = 250;

/** Waits until every job has ended, but no longer than `timeoutMs`. Answers how long it took, in milliseconds. */
export async function drain(
  queue: Pick<ChaosQueue, 'open' | 'settled'>,
  timeoutMs: number,
  progress: Pick<Bar, 'update'>,
  signal: AbortSignal,
): Promise<number> {
  const startedAt = performance.now();
  for (;;) {
    const [open, settled] = await Promise.all([queue.open(), queue.settled()]);
    progress.update(settled, open + settled);
    const tookMs = performance.now() - startedAt;
    if (open === 0 || tookMs > timeoutMs) return Math.round(tookMs);
    await sleep(POLL_MS, undefined, { signal });
  }
}
