import { Queue } from 'bullmq';
import { PRODUCER_TIMEOUT_MS, whenReady, type Connection } from '../../redis/connection.ts';
import { findLayout, followLayout, homesOf, prefixesOf, type Layout, type QueueNames } from './layout.ts';
import { DEAD_LETTERS, QUEUE } from '../names.ts';

/** The two queues of one shard. */
export interface ShardQueues {
  readonly queue: Queue;
  readonly deadQueue: Queue;
}

export interface Shards {
  /** All queues: first those of the shards, then others that may have notifications. Rejects if Redis does not answer. */
  open(): Promise<readonly ShardQueues[]>;
  /** The queues that may have notifications of a recipient, the queues of the recipient's shard first. */
  homes(recipientId: string): Promise<readonly [ShardQueues, ...ShardQueues[]]>;
  at(prefix: string): Promise<ShardQueues>;
  layout(): Promise<Layout>;
  close(): Promise<void>;
}

/**
 * Opens the queues at the first call, for programs that run while Redis is sometimes away: a queue that BullMQ opens while
 * Redis does not answer never recovers. A change of the layout is followed within seconds.
 */
export function createShards(connection: Connection, names: QueueNames): Shards {
  const opened = new Map<string, Promise<ShardQueues>>();
  const followed = followLayout(() => findLayout(connection, names));

  async function openShard(prefix: string): Promise<ShardQueues> {
    const open = (name: string): Queue =>
      new Queue(name, { connection, prefix, skipMetasUpdate: true }).on('error', () => undefined);
    const shard = { queue: open(QUEUE), deadQueue: open(DEAD_LETTERS) };
    try {
      await Promise.all(queuesOf(shard).map((each) => each.waitUntilReady()));
      return shard;
    } catch (error) {
      await closeShard(shard);
      opened.delete(prefix);
      throw error;
    }
  }

  function at(prefix: string): Promise<ShardQueues> {
    const shard = opened.get(prefix) ?? openShard(prefix);
    opened.set(prefix, shard);
    return shard;
  }

  function openAll(prefixes: readonly string[]): Promise<readonly ShardQueues[]> {
    return Promise.all(prefixes.map(at));
  }

  async function layout(): Promise<Layout> {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    return followed.look();
  }

  return {
    at,
    layout,
    open: async () => openAll(prefixesOf(await layout())),
    async homes(recipientId) {
      const [home, ...others] = await openAll(homesOf(recipientId, await layout()));
      if (home === undefined) throw new RangeError('expected a layout with a shard');
      return [home, ...others];
    },
    async close() {
      const all = await Promise.allSettled(opened.values());
      await Promise.all(all.flatMap((each) => (each.status === 'fulfilled' ? [closeShard(each.value)] : [])));
    },
  };
}

async function closeShard(shard: ShardQueues): Promise<void> {
  await Promise.all(queuesOf(shard).map((queue) => queue.close()));
}

function queuesOf({ queue, deadQueue }: ShardQueues): Queue[] {
  return [queue, deadQueue];
}
