import { randomUUID } from 'node:crypto';
import { Queue } from 'bullmq';
import { readProgress } from '../../src/delivery/progress.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { QuietHours } from '../../src/domain/quiet-hours.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { connectWorker } from '../../src/redis/connection.ts';
import { createDeadLetters, type StoredDeadLetter } from '../../src/dead-letters/store.ts';
import { invalidTokensKey } from '../../src/queue/invalid-tokens.ts';
import { DEAD_LETTERS, JOB, PRIORITY, QUEUE } from '../../src/queue/names.ts';
import { createProducer, type Canceled, type CancelTarget } from '../../src/queue/producer.ts';
import { demoDeadLetter, type DemoDeadLetter } from './dead-letters.ts';
import type { Morning } from './morning.ts';
import type { Endings } from './verdict.ts';
import { withSendAfter } from './waiting.ts';

/** The demo's queue, under a prefix of its own; `close` removes it. */
export interface DemoQueue {
  readonly prefix: string;
  enqueue(morning: Morning): Promise<void>;
  cancel(target: CancelTarget): Promise<Canceled>;
  /** Stores quiet hours for a recipient; `close` removes them. */
  quiet(recipientId: string, hours: QuietHours): Promise<void>;
  /** Completed jobs and dead letters. */
  settled(): Promise<number>;
  endings(): Promise<Endings>;
  deadLetters(): Promise<DemoDeadLetter[]>;
  /** Replays one dead letter with this reason; answers its notification's id, or undefined if there is none. */
  replayOne(reason: string): Promise<string | undefined>;
  close(): Promise<void>;
}

export function openDemoQueue(redisUrl: string, policy: Policy): DemoQueue {
  const prefix = `{pushpacer-demo-${randomUUID().slice(0, 8)}}`;
  const connection = connectWorker({ redisUrl });
  const producer = createProducer({ connection, prefix });
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  const deadLetters = createDeadLetters({ queue, deadQueue });
  const limiter = createRedisLimiter({ redis: connection, policy, prefix });
  const quieted: string[] = [];
  const letters = (): Promise<StoredDeadLetter[]> => deadLetters.page(0, 10_000);

  return {
    prefix,
    async enqueue({ valid, malformed }) {
      const now = Date.now();
      await producer.enqueueMany(valid.map((input) => withSendAfter(input, now)));
      // Added without `createProducer`, which would refuse them; a producer in another language might not.
      const opts = { priority: PRIORITY.normal };
      await queue.addBulk(malformed.map((data) => ({ name: JOB, data, opts: { ...opts, jobId: data.id } })));
    },
    cancel: (target) => producer.cancel(target),
    async quiet(recipientId, hours) {
      quieted.push(recipientId);
      await limiter.quiet(recipientId, hours);
    },
    settled: async () => (await queue.getCompletedCount()) + (await deadLetters.count()),
    async endings() {
      const jobs = await queue.getJobs(['completed']);
      const completed = jobs.map((job) => ({
        id: job.id ?? '',
        outcome: (job.returnvalue as { outcome: string }).outcome,
        requeues: readProgress(job.progress).requeues,
      }));
      return { completed, deadLettered: (await letters()).map(({ id }) => id) };
    },
    deadLetters: async () => (await letters()).map(demoDeadLetter),
    async replayOne(reason) {
      const stored = (await letters()).find(({ letter }) => letter.reason === reason);
      if (stored === undefined) return undefined;
      await deadLetters.replay(stored);
      return (stored.letter.notification as { id: string }).id;
    },
    async close() {
      await Promise.all(quieted.map((recipientId) => limiter.unquiet(recipientId)));
      await Promise.all([queue, deadQueue].map((one) => one.obliterate({ force: true })));
      await connection.unlink(invalidTokensKey(prefix));
      await producer.close();
      await Promise.all([queue.close(), deadQueue.close()]);
      connection.disconnect();
    },
  };
}
