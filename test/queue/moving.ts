import type { Queue } from 'bullmq';
import { onTestFinished } from 'vitest';
import { homeOf, type Layout } from '../../src/queue/shards/layout.ts';
import { layoutKey, shardPrefixes } from '../../src/queue/names.ts';
import { createMover, type MoverParts } from '../../src/queue/shards/reshard.ts';
import { createShards } from '../../src/queue/shards/shards.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { notification, present } from './support.ts';

/** A queue that becomes four, in the phase `move`; or another change. */
export async function openReshard({ from = 1, to = 4 } = {}) {
  const redis = connectRedis();
  const prefix = testPrefix();
  const layout: Layout = {
    ...{ version: 3, phase: 'move' },
    ...{ prefixes: shardPrefixes(prefix, to), former: [shardPrefixes(prefix, from)] },
  };
  const write = (next: Layout) => redis.set(layoutKey(prefix), JSON.stringify(next));
  await write(layout);
  const shards = createShards(redis, { prefix, shards: 1 });
  onTestFinished(() => shards.close());
  const mover = (fence = 1, onStep?: MoverParts['onStep']) =>
    createMover({ connection: redis, layout, lease: { fence }, open: (of) => shards.at(of), onStep });
  const moveAll = async (by = mover()): Promise<void> => {
    while ((await by.moveSome()) > 0);
  };
  /** The queue that a recipient has, by the layout or by the former one. */
  const queueOf = async (recipientId: string, prefixes = layout.prefixes): Promise<Queue> =>
    (await shards.at(homeOf(recipientId, { prefixes }))).queue;
  const former = present(layout.former[0]);
  const formerQueueOf = (recipientId: string) => queueOf(recipientId, former);
  return { redis, prefix, layout, former, write, shards, mover, moveAll, queueOf, formerQueueOf };
}

export const dataOf = (id: string, recipientId: string, more = {}) => ({
  ...notification({ id, recipientId }),
  ...more,
});

/** Every job that can run, by id: how often it is there. */
export async function jobsIn(queues: readonly Queue[]): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const queue of queues) {
    for (const { id = '' } of await queue.getJobs(['wait', 'prioritized', 'delayed', 'active', 'completed'])) {
      found[id] = (found[id] ?? 0) + 1;
    }
  }
  return found;
}
