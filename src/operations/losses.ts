import { readLosses, type NotedLoss, type RedisName } from '../queue/losses.ts';
import type { SeenWorker } from '../queue/workers.ts';
import { printable } from '../domain/faults.ts';
import type { Connection } from '../redis/connection.ts';
import { fromNow, span } from '../terminal/text.ts';

// The texts with which the commands `status`, `why` and `doctor` say what a Redis has lost, and whether it may lose keys.

const NAMES: Readonly<Record<RedisName, string>> = { queue: 'Redis', limiter: "the limiter's Redis" };

const GONE: Readonly<Record<RedisName, string>> = {
  queue: 'what waited, dead letters and slots',
  limiter: 'slots, limits and blocks of recipients',
};

/** `Redis was emptied (its keys were deleted), 2m ago: what waited, dead letters and slots are lost` */
export function lossText(loss: NotedLoss, now: number): string {
  return `${NAMES[loss.redis]} ${whatText(loss, now, fromNow(now, Math.min(now, loss.at)))}`;
}

/** The losses that may be the reason why the queue does not know an id, the latest first. `now`: Redis's clock. */
export async function readLossesOfQueue(redis: Connection, prefix: string, now: number): Promise<NotedLoss[]> {
  return (await readLosses(redis, prefix, now)).filter((loss) => loss.redis === 'queue');
}

function whatText(loss: NotedLoss, now: number, when: string): string {
  switch (loss.kind) {
    case 'emptied': {
      const how = loss.server.isSame
        ? 'was emptied (its keys were deleted)'
        : 'came back empty, or another one is there';
      return `${how}, ${when}: ${GONE[loss.redis]} are lost`;
    }
    case 'older':
      return `came back with an older state, ${when}: the ${span(loss.to - loss.from)} before are lost`;
    case 'evicted': {
      const keys = loss.evicted === 1 ? '1 key' : `${loss.evicted} keys`;
      return `evicted ${keys} within ${span(Math.max(0, now - loss.since))}, the last ${when}: ${GONE[loss.redis]} may be lost`;
    }
  }
}

/**
 * One text for each Redis and policy that may lose keys. Workers know the limiter's Redis too, but what they wrote may be 25 s old.
 *
 * @param ofQueue the policies of the queue's Redis, as it says itself; empty if it does not say them
 */
export function mayEvictTexts(workers: readonly SeenWorker[], ofQueue: readonly string[]): string[] {
  const ofWorkers = workers.flatMap(({ alive, evicting = [] }) => (alive ? evicting : []));
  const own = ofQueue
    .filter((policy) => policy !== 'noeviction')
    .map((policy) => ({ redis: 'queue' as const, policy }));
  const found = ofQueue.length === 0 ? ofWorkers : [...own, ...ofWorkers.filter(({ redis }) => redis !== 'queue')];
  const texts = found.map(
    ({ redis, policy }) =>
      `${NAMES[redis]} may evict keys when it is full, and so lose notifications and lift limits: its maxmemory-policy is ` +
      `${printable(policy)}; set noeviction`,
  );
  return [...new Set(texts)];
}
