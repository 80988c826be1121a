import { Queue } from 'bullmq';
import { loadQueueConfig } from '../../src/config/config.ts';
import {
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
  type Connection,
} from '../../src/queue/connection.ts';
import { createDeadLetters, type DeadLetters } from '../../src/queue/dead-letters.ts';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';
import { shardPrefixes } from '../../src/queue/shards.ts';
import { CommandError } from './command.ts';

/** What the commands about dead letters need. */
export interface Desk {
  /** One for each shard. */
  readonly shards: readonly DeadLetters[];
  /** Epoch milliseconds on Redis's clock, when the command began. */
  readonly now: number;
  /** Over all shards. */
  count(): Promise<number>;
}

/** Opens the dead letters that the environment names, and runs `work`. `advice` is added to the error if Redis is lost. */
export async function atDeadLetters(advice: string, work: (desk: Desk) => Promise<void>): Promise<void> {
  const { redis, queue } = loadQueueConfig(process.env);
  const connection = connectProducer(redis);
  connection.on('error', () => undefined); // the call that fails reports it
  try {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    const prefixes = shardPrefixes(queue.prefix, queue.shards);
    const shards = await Promise.all(prefixes.map((prefix) => openShard(connection, prefix)));
    const [seconds, microseconds] = await connection.time();
    const now = Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
    const count = async () => (await Promise.all(shards.map((shard) => shard.count()))).reduce((a, b) => a + b, 0);
    await work({ shards, now, count });
  } catch (error) {
    const known = explained(connection, error);
    throw known instanceof RedisAwayError ? new CommandError(`${known.message}${advice}`) : known;
  } finally {
    connection.disconnect();
  }
}

async function openShard(connection: Connection, prefix: string): Promise<DeadLetters> {
  const open = async (name: string): Promise<Queue> => {
    const queue = new Queue(name, { connection, prefix, skipMetasUpdate: true });
    await queue.on('error', () => undefined).waitUntilReady();
    return queue;
  };
  return createDeadLetters({ queue: await open(QUEUE), deadQueue: await open(DEAD_LETTERS) });
}
