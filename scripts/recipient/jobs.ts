import { Queue, type Job } from 'bullmq';
import type { RedisConfig } from '../../src/config/config.ts';
import { parseNotification, type Notification } from '../../src/domain/notification.ts';
import { readProgress } from '../../src/delivery/progress.ts';
import {
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
} from '../../src/queue/connection.ts';
import { notificationIdOf, QUEUE } from '../../src/queue/names.ts';
import { shardOf, shardPrefixes } from '../../src/queue/shards.ts';
import { CommandError } from '../support/command.ts';

/** What the queue knows of a notification that waits; neither its texts nor its tokens. */
export interface WaitingJob {
  readonly id: string;
  readonly category?: string;
  readonly priority: Notification['priority'];
  /** Epoch milliseconds, on the producer's clock. */
  readonly enqueuedAt: number;
  /** Delivery attempts so far. */
  readonly attempts: number;
  /** How often the limiter put it back. */
  readonly requeues: number;
}

export interface QueueOfRecipient {
  readonly redis: RedisConfig;
  readonly queue: { readonly prefix: string; readonly shards: number };
  readonly recipientId: string;
}

const PAGE = 100;

/** `msg-8841/0` → `msg-8841`: the job that asked for a slot under this id; undefined where it was no job of a worker. */
export function jobIdOfAsk(askId: string): string | undefined {
  return /^(.+)\/\d+$/s.exec(askId)?.[1];
}

/** The jobs that are still in the recipient's queue, by their ids. */
export async function findJobs(
  jobIds: readonly string[],
  { redis, queue, recipientId }: QueueOfRecipient,
): Promise<Map<string, WaitingJob>> {
  const found = new Map<string, WaitingJob>();
  if (jobIds.length === 0) return found;
  const connection = connectProducer(redis);
  connection.on('error', () => undefined); // the call that fails tells it
  try {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    const prefix = shardPrefixes(queue.prefix, queue.shards)[shardOf(recipientId, queue.shards)];
    const shard = new Queue(QUEUE, { connection, skipMetasUpdate: true, ...(prefix !== undefined && { prefix }) });
    await shard.on('error', () => undefined).waitUntilReady();
    for (let from = 0; from < jobIds.length; from += PAGE) {
      const page = jobIds.slice(from, from + PAGE);
      const jobs = (await Promise.all(page.map((id) => shard.getJob(id)))) as (Job<unknown> | undefined)[];
      for (const [index, job] of jobs.entries()) {
        const [id, facts] = [page[index], job && factsOf(job)];
        if (id !== undefined && facts !== undefined) found.set(id, facts);
      }
    }
    return found;
  } catch (error) {
    const known = explained(connection, error);
    throw known instanceof RedisAwayError ? new CommandError(known.message) : known;
  } finally {
    connection.disconnect();
  }
}

function factsOf({ id = '', data, timestamp, progress }: Job<unknown>): WaitingJob | undefined {
  const withId = typeof data === 'object' && data !== null ? { id: notificationIdOf(id), ...data } : data;
  const parsed = parseNotification(withId);
  if (!parsed.ok) return undefined;
  const { category, priority } = parsed.notification;
  const { tries: attempts, requeues } = readProgress(progress);
  return {
    id: parsed.notification.id,
    ...(category !== undefined && { category }),
    priority,
    enqueuedAt: timestamp,
    attempts,
    requeues,
  };
}
