import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import type { NotificationInput } from '../../src/domain/notification.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/queue/producer.ts';

/** A queue that pushpacer's producer fills, for either worker. */
export interface BenchQueue {
  readonly connection: Redis;
  /** Adds all of them; throws where one is refused. */
  add(jobs: readonly NotificationInput[]): Promise<void>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Resolves when no job waits, is delayed or under way. */
  empty(): Promise<void>;
  close(): Promise<void>;
}

const POLL_MS = 20;

export function openBenchQueue(redisUrl: string, prefix: string): BenchQueue {
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const producer = createProducer({ connection, prefix });
  const queue = new Queue(QUEUE, { connection, prefix });
  return {
    connection,
    async add(jobs) {
      const answers = await producer.enqueueMany(jobs);
      const refused = answers.find(({ kind }) => kind !== 'added');
      if (refused !== undefined) throw new Error(`expected every job to be added, found one ${refused.kind}`);
    },
    pause: () => queue.pause(),
    resume: () => queue.resume(),
    async empty() {
      for (;;) {
        const counts = await queue.getJobCounts('wait', 'prioritized', 'delayed', 'active');
        if (Object.values(counts).every((count) => count === 0)) return;
        await sleep(POLL_MS);
      }
    },
    async close() {
      await producer.close();
      await queue.close();
      connection.disconnect();
    },
  };
}
