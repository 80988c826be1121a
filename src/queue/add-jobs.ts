import { Job, type IRedisTransaction, type Queue } from 'bullmq';
import type { ChainableCommander } from 'ioredis';
import { JOB, jobIdOf } from './names.ts';
import { KEEP_COMPLETED } from './retention.ts';

/** A notification on its way into the queue. */
export interface Entry {
  readonly id: string;
  readonly recipientId: string;
  readonly priority: number;
  /** The job's data: the notification as it was handed over, and the id. */
  readonly data: unknown;
}

type Reply = readonly [Error | null, unknown];
const NO_REPLY: Reply = [new Error('Redis answered less than it was asked'), undefined];

/**
 * Adds jobs, and answers those that were not there before. BullMQ's `add` says nothing of that, so each id is looked
 * for in the transaction that adds it: of two producers with the same id exactly one has added it.
 */
export async function addJobs(queue: Queue, entries: readonly Entry[]): Promise<Entry[]> {
  const client = await queue.getBackend().client;
  const transaction = client.multi();
  const jobs = entries.map((entry) => jobOf(queue, entry));
  for (const { job, key } of jobs) {
    exists(transaction, key);
    await job.addJob(transaction);
  }
  const replies: Reply[] = (await transaction.exec()) ?? [];
  const added: Entry[] = [];
  for (const [position, { job, entry }] of jobs.entries()) {
    const [existsError, existed] = replies[2 * position] ?? NO_REPLY;
    const [addError] = replies[2 * position + 1] ?? NO_REPLY;
    // Within a transaction nobody sends a script again that SCRIPT FLUSH took away; a plain call does.
    if (addError?.message.startsWith('NOSCRIPT')) await job.addJob(client);
    else if (addError) throw addError;
    if (existsError) throw existsError;
    if (existed === 0) added.push(entry);
  }
  return added;
}

function jobOf(queue: Queue, entry: Entry): { readonly entry: Entry; readonly job: Job; readonly key: string } {
  const jobId = jobIdOf(entry.id);
  const options = { jobId, priority: entry.priority, removeOnComplete: KEEP_COMPLETED, removeOnFail: false };
  return { entry, job: new Job(queue, JOB, entry.data, options, jobId), key: queue.toKey(jobId) };
}

/** BullMQ's type of a transaction leaves out most of what the transaction of ioredis behind it can do. */
function exists(transaction: IRedisTransaction, key: string): void {
  (transaction as unknown as ChainableCommander).exists(key);
}
