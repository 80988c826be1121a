import { DelayedError, Queue, Worker, type Job, type Processor, type WorkerOptions } from 'bullmq';
import type { Redis } from 'ioredis';
import { expect, onTestFinished, vi } from 'vitest';
import type { EnqueueInput } from '../../src/producer/producer.ts';
import { createJobLock } from '../../src/queue/job-lock.ts';
import { DEAD_LETTERS, QUEUE, type Prioritised } from '../../src/queue/names.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { contentOf } from '../support/stored.ts';
import { waitFor } from '../support/wait.ts';

/** A notification that fits; `fields` on top. */
export function notification(fields: Partial<EnqueueInput> = {}): EnqueueInput {
  return {
    recipientId: 'teacher-42',
    devices: [{ platform: 'apns', token: 'ab'.repeat(32) }],
    alert: { title: 'Room 12', body: 'Field trip forms are due' },
    ...fields,
  };
}

/** Both queues under a prefix of their own, closed when the test ends. */
export function openQueues(prefix = testPrefix()): { prefix: string; queue: Queue; deadQueue: Queue } {
  const connection = connectRedis();
  const queue = new Queue(QUEUE, { connection, prefix });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix });
  onTestFinished(async () => {
    await queue.close();
    await deadQueue.close();
  });
  return { prefix, queue, deadQueue };
}

/** A plain BullMQ worker, closed when the test ends. */
export function consume(prefix: string, processor: Processor, options: Partial<WorkerOptions> = {}): Worker {
  const worker = new Worker(QUEUE, processor, { connection: connectRedis(), prefix, drainDelay: 1, ...options });
  worker.on('error', () => undefined);
  onTestFinished(() => worker.close());
  return worker;
}

/** The value of which the test knows that it is there. */
export function present<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error('expected a value, found none');
  return value;
}

/** Fails jobs as the processor does: reason and attempts in the progress, then for good. */
export async function die(job: Job, reason = 'rejected'): Promise<never> {
  await job.updateProgress({ dead: { reason, message: `${reason} by the provider` }, attempts: ATTEMPTS });
  throw Object.assign(new Error(`${reason}: by the provider`), { name: 'UnrecoverableError' });
}

export const ATTEMPTS = [{ at: 1_784_000_000_000, device: 'apns#0', error: 'InternalServerError' }];

/** Puts a job back as a worker does, for so long; answers when it is due. The processor then throws `DelayedError`. */
export async function putBack(
  queue: Queue,
  job: Pick<Job<unknown>, 'id'> & Prioritised,
  token: string | undefined,
  delayMs: number,
  progress = {},
): Promise<number> {
  const dueAt = Date.now() + Math.ceil(delayMs);
  await createJobLock(job, token ?? '', { queue, lockMs: 30_000 }).putBack(delayMs, progress);
  return dueAt;
}

/** A worker puts back each job that is there, for so long and with this progress. Answers when they are due. */
export async function putBackAll(
  { prefix, queue }: { readonly prefix: string; readonly queue: Queue },
  delayMs: number,
  progress: object,
): Promise<number[]> {
  const jobs = await queue.getPrioritizedCount();
  const dueAts: number[] = [];
  consume(prefix, async (job, token) => {
    dueAts.push(await putBack(queue, job, token, delayMs, progress));
    throw new DelayedError();
  });
  await waitFor(async () => expect(await queue.getDelayedCount()).toBe(jobs));
  return dueAts;
}

/** Everything under a queue's keys, but for what differs by nature: the prefix, the clock, the ids given so far. */
export async function snapshot(redis: Redis, queue: Queue): Promise<Record<string, unknown>> {
  const start = queue.toKey('');
  const keys = (await redis.keys(`${start}*`)).filter((key) => !['id', 'meta'].includes(key.slice(start.length)));
  const entries = await Promise.all(
    keys.map(async (key) => [key.slice(start.length), await valueOf(redis, key)] as const),
  );
  return Object.fromEntries(entries);
}

async function valueOf(redis: Redis, key: string): Promise<unknown> {
  const type = await redis.type(key);
  const content = await contentOf(redis, key, type);
  if (type === 'stream') return (content as [id: string, fields: string[]][]).map(([, fields]) => fields);
  if (type !== 'hash') return content;
  const { timestamp, opts, ...fields } = content as Record<string, string>;
  expect(Number(timestamp)).toBeGreaterThan(Date.now() - 60_000);
  return { ...fields, opts: JSON.parse(opts ?? '') as unknown };
}

/** Steps this process's clock, but not Redis's, until the test ends. */
export function stepClock(): (byMs: number) => void {
  const now = Date.now;
  let shiftMs = 0;
  const spy = vi.spyOn(Date, 'now').mockImplementation(() => now() + shiftMs);
  onTestFinished(() => {
    spy.mockRestore();
  });
  return (byMs) => {
    shiftMs += byMs;
  };
}
