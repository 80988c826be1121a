import { setTimeout as sleep } from 'node:timers/promises';
import type { NotificationInput } from '../../../src/domain/notification.ts';
import { RedisAwayError } from '../../../src/redis/connection.ts';
import { JOB, PRIORITY } from '../../../src/queue/names.ts';
import { createProducer, type EnqueueInput, type Producer } from '../../../src/queue/producer.ts';
import type { ChaosQueue } from './queue.ts';
import type { Burst, Workload } from '../plan/workload.ts';

/** A notification that Redis has acknowledged. */
export interface Enqueued {
  readonly id: string;
  /** The input of `createProducer`; absent for a malformed one. */
  readonly input?: NotificationInput;
}

/** What Redis has acknowledged. */
export interface EnqueuedAll {
  readonly enqueued: ReadonlyMap<string, Enqueued>;
  /** Notification → the last answer to its cancel: whether it was canceled. */
  readonly cancels: ReadonlyMap<string, boolean>;
}

export interface EnqueueOptions {
  readonly redisUrl: string;
  readonly queue: ChaosQueue;
  readonly signal: AbortSignal;
  readonly onEnqueued: (total: number) => void;
}

/** The part of the plan, in time, that is enqueued at once. */
const TICK_MS = 50;
const RETRY_MS = 200;

/** Enqueues every burst at its time. If Redis is away it tries again, until all are acknowledged. */
export async function enqueue(workload: Workload, options: EnqueueOptions): Promise<EnqueuedAll> {
  const { redisUrl, queue, signal, onEnqueued } = options;
  const enqueued = new Map<string, Enqueued>();
  const cancels = new Map<string, boolean>();
  const canceling: Promise<void>[] = [];
  const producer = createProducer({ redisUrl, prefix: queue.prefix });
  try {
    await addMalformed(workload.malformed, queue);
    for (const { id } of workload.malformed) enqueued.set(id, { id });
    const startedAt = performance.now();
    const left = [...workload.bursts];
    while (left.length > 0) {
      const now = performance.now() - startedAt;
      const due = left.splice(0, countDue(left, now));
      const inputs = due.flatMap(({ items }) => items).map((item) => withExpiry(item, Date.now()));
      await insist(() => addAll(producer, inputs), signal);
      for (const { input, cancelAfterMs } of due.flatMap(({ items }) => items)) {
        if (cancelAfterMs === undefined) continue;
        const cancel = async (): Promise<void> => {
          await sleep(cancelAfterMs, undefined, { signal });
          cancels.set(input.id, (await insist(() => producer.cancel({ id: input.id }), signal)).canceled === 1);
        };
        canceling.push(cancel());
      }
      for (const input of inputs) enqueued.set(input.id, { id: input.id, input });
      onEnqueued(enqueued.size);
      await sleep(TICK_MS, undefined, { signal });
    }
    await Promise.all(canceling);
  } finally {
    await Promise.allSettled(canceling);
    await producer.close();
  }
  return { enqueued, cancels };
}

function countDue(bursts: readonly Burst[], nowMs: number): number {
  const next = bursts.findIndex(({ atMs }) => atMs > nowMs);
  return next < 0 ? bursts.length : next;
}

function withExpiry({ input, expiresInMs }: Burst['items'][number], now: number): NotificationInput {
  return expiresInMs === undefined ? input : { ...input, expiresAt: now + expiresInMs };
}

async function addAll(producer: Producer, inputs: readonly EnqueueInput[]): Promise<void> {
  const answers = await producer.enqueueMany(inputs);
  const refused = answers.find(({ kind }) => kind === 'invalid');
  if (refused !== undefined) throw new TypeError(`the workload has a bad notification: ${JSON.stringify(refused)}`);
}

/** Does it again if there was no answer; to enqueue and to cancel again is safe. */
async function insist<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof RedisAwayError)) throw error;
      await sleep(RETRY_MS, undefined, { signal });
    }
  }
}

/** As a plain BullMQ client in another language does. */
async function addMalformed(malformed: Workload['malformed'], { queue }: Pick<ChaosQueue, 'queue'>): Promise<void> {
  const opts = { priority: PRIORITY.normal };
  await queue.addBulk(malformed.map((data) => ({ name: JOB, data, opts: { ...opts, jobId: data.id } })));
}
