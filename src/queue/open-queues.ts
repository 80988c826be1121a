import { Queue } from 'bullmq';
import type { Connection } from '../redis/connection.ts';

/** The queue of this name in each shard, ready for use. Rejects, with all of them closed, if Redis does not answer. */
export async function openQueues(name: string, connection: Connection, prefixes: readonly string[]): Promise<Queue[]> {
  const queues = prefixes.map((prefix) => new Queue(name, { connection, prefix }).on('error', toldElsewhere));
  try {
    await Promise.all(queues.map((queue) => queue.waitUntilReady()));
    return queues;
  } catch (error) {
    await Promise.all(queues.map((queue) => queue.close()));
    throw error;
  }
}

/** A listener for `error` events, which Node would throw without one. The failed call itself reports the error. */
export function toldElsewhere(): void {
  return;
}
