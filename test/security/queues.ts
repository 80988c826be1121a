import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { onTestFinished } from 'vitest';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';

/** Both queues as a plain BullMQ client sees them, closed when the test ends. */
export function openQueuesOn(connection: Redis, prefix: string): { queue: Queue; deadQueue: Queue } {
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  for (const opened of [queue, deadQueue]) {
    opened.on('error', () => undefined); // the test ends the Redis
    onTestFinished(() => opened.close());
  }
  return { queue, deadQueue };
}
