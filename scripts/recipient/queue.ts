import { Queue } from 'bullmq';
import type { RedisConfig } from '../../src/config/config.ts';
import {
  type Connection,
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
} from '../../src/queue/connection.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { shardOf, shardPrefixes } from '../../src/queue/shards.ts';
import { CommandError } from '../support/command.ts';

export interface QueueOfRecipient {
  readonly redis: RedisConfig;
  readonly queue: { readonly prefix: string; readonly shards: number };
  readonly recipientId: string;
}

/** Opens the queue with the recipient's notifications, runs `work`, and closes it. */
export async function atQueue<T>(
  { redis, queue, recipientId }: QueueOfRecipient,
  work: (shard: Queue<unknown>, connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = connectProducer(redis);
  connection.on('error', () => undefined); // the call that fails reports it
  try {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    const prefix = shardPrefixes(queue.prefix, queue.shards)[shardOf(recipientId, queue.shards)];
    const shard = new Queue<unknown>(QUEUE, {
      connection,
      skipMetasUpdate: true,
      ...(prefix !== undefined && { prefix }),
    });
    await shard.on('error', () => undefined).waitUntilReady();
    return await work(shard, connection);
  } catch (error) {
    const known = explained(connection, error);
    throw known instanceof RedisAwayError ? new CommandError(known.message) : known;
  } finally {
    connection.disconnect();
  }
}

/** `msg-8841/0` → `msg-8841`: the job that asked for a slot under this id; undefined if no worker asked. */
export function jobIdOfAsk(askId: string): string | undefined {
  return /^(.+)\/\d+$/s.exec(askId)?.[1];
}
