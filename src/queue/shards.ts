import { Queue } from 'bullmq';
import { PRODUCER_TIMEOUT_MS, whenReady, type Connection } from '../redis/connection.ts';
import { DEAD_LETTERS, QUEUE, shardOf, shardPrefixes } from './names.ts';

/** The two queues of one shard. */
export interface ShardQueues {
  readonly queue: Queue;
  readonly deadQueue: Queue;
}

export interface Shards {
  /** One for each shard. Rejects if Redis does not answer. */
  open(): Promise<readonly ShardQueues[]>;
  close(): Promise<void>;
}

/**
 * Opens the queues at the first call, for programs that run while Redis comes and goes: a queue that BullMQ opens while Redis is away
 * never recovers.
 */
export function createShards(
  connection: Connection,
  { prefix, shards }: { readonly prefix: string; readonly shards: number },
): Shards {
  let opened: Promise<readonly ShardQueues[]> | undefined;
  const openAll = async (): Promise<readonly ShardQueues[]> => {
    const open = (name: string, of: string): Queue =>
      new Queue(name, { connection, prefix: of, skipMetasUpdate: true }).on('error', () => undefined);
    const all = shardPrefixes(prefix, shards).map((of) => ({
      queue: open(QUEUE, of),
      deadQueue: open(DEAD_LETTERS, of),
    }));
    try {
      await Promise.all(queuesOf(all).map((each) => each.waitUntilReady()));
      return all;
    } catch (error) {
      await Promise.all(queuesOf(all).map((each) => each.close()));
      opened = undefined;
      throw error;
    }
  };
  return {
    async open() {
      await whenReady(connection, PRODUCER_TIMEOUT_MS);
      return (opened ??= openAll());
    },
    async close() {
      const all = await opened?.catch(() => []);
      await Promise.all(queuesOf(all ?? []).map((each) => each.close()));
    },
  };
}

/** What belongs to the shard of a recipient, of a list with one for each shard. */
export function ofRecipient<T>(all: readonly T[], recipientId: string): T {
  const own = all[shardOf(recipientId, all.length)];
  if (own === undefined) throw new RangeError('expected one for each shard');
  return own;
}

function queuesOf(shards: readonly ShardQueues[]): Queue[] {
  return shards.flatMap(({ queue, deadQueue }) => [queue, deadQueue]);
}
