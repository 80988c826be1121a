import { Queue } from 'bullmq';
import { loadQueueConfig } from '../../src/config/config.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import { createDeadLetters, type DeadLetters } from '../../src/dead-letters/store.ts';
import { matches, type DeadLetterFilter } from '../../src/dead-letters/take.ts';
import { DEAD_LETTERS, QUEUE, shardPrefixes } from '../../src/queue/names.ts';
import { readWorkers, sharedPolicy } from '../../src/queue/workers.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { Connection } from '../../src/redis/connection.ts';
import { readEnvironment } from '../support/environment.ts';
import { atQueueRedis } from '../support/queue-redis.ts';

/** What the commands about dead letters need. */
export interface Desk {
  /** One for each shard. */
  readonly shards: readonly DeadLetters[];
  /** Epoch milliseconds on Redis's clock, when the command began. */
  readonly now: number;
  /** Over all shards. */
  count(): Promise<number>;
  /** The overall limits that the living workers tell; undefined if none does. */
  workersPolicy(): Promise<Policy | undefined>;
}

/** Opens the dead letters that the environment names, and runs `work`. `advice` is added to the error if Redis is lost. */
export async function atDeadLetters(advice: string, work: (desk: Desk) => Promise<void>): Promise<void> {
  const { redis, queue } = loadQueueConfig(readEnvironment());
  const open = async (connection: Connection): Promise<void> => {
    const prefixes = shardPrefixes(queue.prefix, queue.shards);
    const shards = await Promise.all(prefixes.map((prefix) => openShard(connection, prefix)));
    const [seconds, microseconds] = await connection.time();
    const now = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
    const count = async () => (await Promise.all(shards.map((shard) => shard.count()))).reduce((a, b) => a + b, 0);
    const workersPolicy = async () => sharedPolicy(await readWorkers(connection, queue.prefix))?.policy.policy;
    await work({ shards, now, count, workersPolicy });
  };
  await atQueueRedis(redis, open, advice);
}

async function openShard(connection: Connection, prefix: string): Promise<DeadLetters> {
  const open = async (name: string): Promise<Queue> => {
    const queue = new Queue(name, { connection, prefix, skipMetasUpdate: true });
    await queue.on('error', () => undefined).waitUntilReady();
    return queue;
  };
  return createDeadLetters({ queue: await open(QUEUE), deadQueue: await open(DEAD_LETTERS) });
}

/** Dead letters of all shards that match the filter, oldest first; one page of each shard is in memory at a time. */
export async function* inOrder(
  { shards, now }: Pick<Desk, 'shards' | 'now'>,
  filter: DeadLetterFilter,
): AsyncGenerator<StoredDeadLetter, void, undefined> {
  const walks = shards.map((shard) => chosenOf(shard, filter, now));
  const heads = await Promise.all(walks.map(headOf));
  for (;;) {
    const deaths = heads.map((head) => head?.letter.deadAt ?? Infinity);
    const oldest = deaths.indexOf(Math.min(...deaths));
    const [walk, head] = [walks[oldest], heads[oldest]];
    if (walk === undefined || head === undefined) return;
    yield head;
    heads[oldest] = await headOf(walk);
  }
}

type Walk = AsyncGenerator<StoredDeadLetter, undefined, undefined>;

async function headOf(walk: Walk): Promise<StoredDeadLetter | undefined> {
  return (await walk.next()).value;
}

async function* chosenOf(shard: DeadLetters, filter: DeadLetterFilter, now: number): Walk {
  for await (const page of shard.walk()) {
    for (const stored of page) if (stored.buriedAt <= now && matches(stored, filter)) yield stored;
  }
  return undefined;
}
