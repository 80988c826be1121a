import { Job, type IRedisTransaction, type Queue } from 'bullmq';
import type { ChainableCommander } from 'ioredis';
import { indexAdded } from './cancellation-index.ts';
import { cancellationIndexKey, JOB, jobIdOf } from './names.ts';
import { KEEP_COMPLETED } from './retention.ts';

/** A checked notification that is to be added. */
export interface Entry {
  readonly id: string;
  readonly recipientId: string;
  readonly priority: number;
  /** No worker takes it before this has passed. Milliseconds; default 0. */
  readonly delayMs?: number;
  /** Those with the same key have timestamps in the order in which this process added them. */
  readonly orderKey?: string | undefined;
  /** Under which it can be canceled together with others. */
  readonly cancellationKey?: string | undefined;
  /** The job's data: the notification as the producer gave it, with its id. */
  readonly data: unknown;
}

type Reply = readonly [Error | null, unknown];
const NO_REPLY: Reply = [new Error('Redis sent fewer answers than it got commands'), undefined];

/**
 * Adds jobs, and answers those whose id was not taken. BullMQ's `add` does not tell that, so the same transaction checks each id
 * before it adds it: of two producers with the same id exactly one has added it.
 */
export async function addJobs(queue: Queue, entries: readonly Entry[]): Promise<Entry[]> {
  const client = await queue.getBackend().client;
  const transaction = client.multi();
  const jobs = entries.map((entry) => jobOf(queue, entry));
  for (const { job, key } of jobs) {
    chained(transaction).exists(key);
    await job.addJob(transaction);
  }
  for (const { entry, job } of jobs) {
    const { recipientId, cancellationKey, delayMs = 0 } = entry;
    if (cancellationKey === undefined) continue;
    const key = cancellationIndexKey(queue.opts.prefix ?? '', recipientId, cancellationKey);
    indexAdded(chained(transaction), key, job.id ?? '', delayMs);
  }
  const replies: Reply[] = (await transaction.exec()) ?? [];
  const added: Entry[] = [];
  for (const [position, { job, entry }] of jobs.entries()) {
    const [existsError, existed] = replies[2 * position] ?? NO_REPLY;
    const [addError] = replies[2 * position + 1] ?? NO_REPLY;
    // After SCRIPT FLUSH, ioredis sends a script again for a plain call, but not within a transaction.
    if (addError?.message.startsWith('NOSCRIPT')) await job.addJob(client);
    else if (addError) throw addError;
    if (existsError) throw existsError;
    if (existed === 0) added.push(entry);
  }
  return added;
}

/** The latest timestamp of each `orderKey`, unless it is past. */
const latest = new Map<string, number>();
const MOST_KEPT = 10_000;

/** Of two with `onThrottle: "latest"` the one that was added later is newer, also if both are added within a millisecond. */
function timestampOf({ orderKey }: Entry): number {
  const now = Date.now();
  if (orderKey === undefined) return now;
  const timestamp = Math.max(now, (latest.get(orderKey) ?? 0) + 1);
  latest.set(orderKey, timestamp);
  if (latest.size > MOST_KEPT) {
    for (const [key, at] of latest) if (at < now) latest.delete(key);
  }
  return timestamp;
}

function jobOf(queue: Queue, entry: Entry): { readonly entry: Entry; readonly job: Job; readonly key: string } {
  const jobId = jobIdOf(entry.id);
  const { priority, delayMs: delay = 0 } = entry;
  const options = {
    jobId,
    priority,
    delay,
    timestamp: timestampOf(entry),
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: false,
  };
  return { entry, job: new Job(queue, JOB, entry.data, options, jobId), key: queue.toKey(jobId) };
}

/** BullMQ's type of a transaction lacks most methods of the ioredis transaction that it is. */
function chained(transaction: IRedisTransaction): ChainableCommander {
  return transaction as unknown as ChainableCommander;
}
