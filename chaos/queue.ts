import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { arrivalInstant } from '../sandbox/journal.ts';
import { quietNow } from '../demo/morning.ts';
import type { StoredDeadLetter } from '../src/dead-letters/letter.ts';
import { createDeadLetters } from '../src/dead-letters/store.ts';
import { readProgress, type Progress } from '../src/delivery/progress.ts';
import type { ToDevices } from '../src/notification/notification.ts';
import { createRedisLimiter } from '../src/limiter/redis/redis-limiter.ts';
import { lockKeyOf } from '../src/queue/bullmq-internals.ts';
import { DEAD_LETTERS, notificationIdOf, QUEUE, JOB, PRIORITY, shardOf, shardPrefixes } from '../src/queue/names.ts';
import { createProducer, type EnqueueInput, type Producer } from '../src/producer/producer.ts';
import { connectWorker, RedisAwayError } from '../src/redis/connection.ts';
import type { Progress as Bar } from '../src/terminal/progress.ts';
import { POLICY, type Burst, type Workload } from './workload.ts';

/** Where the run's queue is. */
export interface ChaosTarget {
  readonly redisUrl: string;
  /** True: the URLs are those of a cluster's nodes. */
  readonly cluster: boolean;
  readonly shards: number;
}

/** How a job ended, as BullMQ keeps it. */
export interface Completed {
  /** The notification's. */
  readonly id: string;
  readonly outcome: string;
  /** The notification that goes in its place. */
  readonly by?: string;
  /** How each device ended: `apns#0` is the first one, on APNs. */
  readonly devices?: Progress['devices'];
  /** The last that was saved; at the end it need not be saved. */
  readonly progress: Progress;
}

/** How the jobs ended, read from the queue. */
export interface Ends {
  readonly completed: readonly Completed[];
  readonly dead: readonly StoredDeadLetter[];
  /** Notifications whose job has not ended. */
  readonly queued: readonly string[];
}

/** The queue, seen from outside of the workers. */
export interface ChaosQueue {
  readonly prefix: string;
  readonly target: ChaosTarget;
  /** Adds jobs as a plain BullMQ client in another language does. */
  addPlain(notifications: readonly { readonly id: string }[]): Promise<void>;
  /** Notification → holder of its job lock ('' for none), for all jobs that workers have now. */
  inHand(): Promise<Map<string, string>>;
  /** Those of one shard. */
  inHandOf(shard: number): Promise<Map<string, string>>;
  /** The same notifications; from that instant on Redis pauses all clients for a while, because it will be killed. No cluster. */
  inHandAtTheEnd(): Promise<string[]>;
  /** Jobs that have not ended: `failed` ones are not dead letters yet. */
  open(): Promise<number>;
  countEnded(): Promise<number>;
  ends(): Promise<Ends>;
  /** It is quiet for these recipients from now on. */
  quiet(recipientIds: readonly string[]): Promise<void>;
  cutClients(): Promise<void>;
  pause(ms: number): Promise<void>;
  close(): Promise<void>;
}

const OPEN = ['wait', 'active', 'delayed', 'prioritized', 'failed'] as const;
const PAGE = 2_000;

export function openChaosQueue(target: ChaosTarget): ChaosQueue {
  const { redisUrl, shards, cluster } = target;
  const prefix = '{pushpacer-chaos}';
  const connection = connectWorker({ redisUrl, cluster });
  const control = cluster
    ? connectWorker({ redisUrl, cluster })
    : new Redis(redisUrl, { maxRetriesPerRequest: null, retryStrategy: () => 50 });
  // Redis is killed on purpose.
  for (const one of [connection, control]) one.on('error', () => undefined);
  const open = (name: string, of: string): Queue =>
    new Queue(name, { connection, prefix: of }).on('error', () => undefined);
  const parts = shardPrefixes(prefix, shards).map((of) => {
    const [queue, deadQueue] = [open(QUEUE, of), open(DEAD_LETTERS, of)];
    return { queue, deadQueue, deadLetters: createDeadLetters({ queue, deadQueue }), active: queue.toKey('active') };
  });
  const limiter = createRedisLimiter({ redis: control, policy: POLICY, prefix });
  const ofAll = async <T>(of: (part: (typeof parts)[number]) => Promise<T[]>): Promise<T[]> =>
    (await again(() => Promise.all(parts.map(of)))).flat();
  const total = async (of: (part: (typeof parts)[number]) => Promise<number>): Promise<number> =>
    (await again(() => Promise.all(parts.map(of)))).reduce((sum, count) => sum + count, 0);

  async function inHandOf(shard: number): Promise<Map<string, string>> {
    const { queue, active } = parts[shard] ?? {};
    if (queue === undefined || active === undefined) throw new RangeError(`no shard ${shard}`);
    const jobIds = await again(() => control.lrange(active, 0, -1));
    const lockKeys = jobIds.map((jobId) => lockKeyOf(queue, jobId));
    const tokens = jobIds.length === 0 ? [] : await again(() => control.mget(lockKeys));
    return new Map(jobIds.map((jobId, index) => [notificationIdOf(jobId), holderOf(tokens[index])]));
  }

  return {
    prefix,
    target,
    async addPlain(notifications) {
      const opts = { priority: PRIORITY.normal };
      const byShard = Map.groupBy(notifications, (data) =>
        shardOf((data as { recipientId?: string }).recipientId ?? '', shards),
      );
      for (const [shard, some] of byShard) {
        await parts[shard]?.queue.addBulk(some.map((data) => ({ name: JOB, data, opts: { ...opts, jobId: data.id } })));
      }
    },
    inHandOf,
    async inHand() {
      const found = await Promise.all(parts.map((_, shard) => inHandOf(shard)));
      return new Map(found.flatMap((some) => [...some]));
    },
    async inHandAtTheEnd() {
      const active = parts[0]?.active ?? '';
      const answers = await (control as Redis)
        .multi()
        .lrange(active, 0, -1)
        .call('CLIENT', 'PAUSE', 3_000, 'ALL')
        .exec();
      return (answers?.[0]?.[1] as string[]).map(notificationIdOf);
    },
    open: () => total(({ queue }) => queue.getJobCountByTypes(...OPEN)),
    countEnded: () =>
      total(async ({ queue, deadLetters }) => (await queue.getCompletedCount()) + (await deadLetters.count())),
    ends: async () => ({
      completed: (await ofAll(({ queue }) => everyPage((from, to) => queue.getJobs(['completed'], from, to)))).map(
        (job) => ({
          id: notificationIdOf(job.id ?? ''),
          outcome: 'none',
          ...(job.returnvalue as Partial<Pick<Completed, 'outcome' | 'by' | 'devices'>> | null),
          progress: readProgress(job.progress),
        }),
      ),
      dead: await ofAll(({ deadLetters }) => everyPage((from, to) => deadLetters.page(from, to - from + 1))),
      queued: (await ofAll(({ queue }) => queue.getJobs([...OPEN]))).map(({ id = '' }) => notificationIdOf(id)),
    }),
    async quiet(recipientIds) {
      const hours = quietNow(Date.now());
      await Promise.all(recipientIds.map((recipientId) => limiter.quiet(recipientId, hours)));
    },
    async cutClients() {
      await control.call('CLIENT', 'KILL', 'TYPE', 'normal');
    },
    async pause(ms) {
      await control.call('CLIENT', 'PAUSE', ms, 'ALL');
    },
    async close() {
      // First, because without Redis a call that waits for an answer would wait for ever.
      for (const one of [connection, control]) one.disconnect();
      await Promise.all(parts.flatMap(({ queue, deadQueue }) => [queue.close(), deadQueue.close()]));
    },
  };
}

/** For how long a read is tried again. A cluster refuses one whose slot has no master, or is on its way to another one. */
const READ_WITHIN_MS = 60_000;

async function again<T>(read: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + READ_WITHIN_MS;
  for (;;) {
    try {
      return await read();
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(POLL_MS);
    }
  }
}

/** The token of a lock is `<the worker's id>:<a number>`. */
function holderOf(token: string | null | undefined): string {
  return token?.split(':')[0] ?? '';
}

async function everyPage<T>(page: (from: number, to: number) => Promise<T[]>): Promise<T[]> {
  const all: T[] = [];
  for (;;) {
    const found = await page(all.length, all.length + PAGE - 1);
    all.push(...found);
    if (found.length < PAGE) return all;
  }
}

const POLL_MS = 250;

/** Waits until every job has ended, but no longer than `timeoutMs`. Answers how long it took, in milliseconds. */
export async function drain(
  queue: Pick<ChaosQueue, 'open' | 'countEnded'>,
  timeoutMs: number,
  progress: Pick<Bar, 'update'>,
  signal: AbortSignal,
): Promise<number> {
  const startedAt = performance.now();
  for (;;) {
    const [open, ended] = await Promise.all([queue.open(), queue.countEnded()]);
    progress.update(ended, open + ended);
    const tookMs = performance.now() - startedAt;
    if (open === 0 || tookMs > timeoutMs) return Math.round(tookMs);
    await sleep(POLL_MS, undefined, { signal });
  }
}

/** A notification that Redis has acknowledged. */
export interface Enqueued {
  readonly id: string;
  /** The input of `createProducer`; absent for a malformed one. */
  readonly input?: ToDevices;
  /** When Redis acknowledged it for the last time; a few are enqueued twice. Epoch milliseconds. */
  readonly acknowledgedAt?: number;
}

/** What Redis has acknowledged. */
interface EnqueuedAll {
  readonly enqueued: ReadonlyMap<string, Enqueued>;
  /** Notification → the last answer to its cancel: whether it was canceled. */
  readonly cancels: ReadonlyMap<string, boolean>;
  /** When that cancel was asked for, and when its answer came. */
  readonly canceledAt: ReadonlyMap<string, Span>;
}

/** From one instant to another: epoch milliseconds. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

interface EnqueueOptions {
  readonly queue: ChaosQueue;
  readonly signal: AbortSignal;
  readonly onEnqueued: (total: number) => void;
}

/** The part of the plan, in time, that is enqueued at once. */
const TICK_MS = 50;
const RETRY_MS = 200;

/** Enqueues every burst at its time. If Redis is away it tries again, until all are acknowledged. */
export async function enqueue(workload: Workload, options: EnqueueOptions): Promise<EnqueuedAll> {
  const { queue, signal, onEnqueued } = options;
  const enqueued = new Map<string, Enqueued>();
  const cancels = new Map<string, boolean>();
  const canceledAt = new Map<string, Span>();
  const canceling: Promise<void>[] = [];
  const { prefix, target } = queue;
  const producer = createProducer({ ...target, prefix });
  try {
    await queue.addPlain(workload.malformed);
    for (const { id } of workload.malformed) enqueued.set(id, { id });
    const startedAt = performance.now();
    const left = [...workload.bursts];
    while (left.length > 0) {
      const now = performance.now() - startedAt;
      const due = left.splice(0, countDue(left, now));
      const inputs = due.flatMap(({ items }) => items).map((item) => withExpiry(item, Date.now()));
      // A shard whose master is away holds up its own alone, and each has the instant of its own answer.
      const byShard = Map.groupBy(inputs, ({ recipientId }) => shardOf(recipientId, target.shards));
      const added = [...byShard.values()].map(async (some) => {
        await insist(() => addAll(producer, some), signal);
        const acknowledgedAt = arrivalInstant();
        for (const input of some) enqueued.set(input.id, { id: input.id, input, acknowledgedAt });
      });
      await Promise.all(added);
      for (const { input, cancelAfterMs } of due.flatMap(({ items }) => items)) {
        if (cancelAfterMs === undefined) continue;
        const cancel = async (): Promise<void> => {
          await sleep(cancelAfterMs, undefined, { signal });
          let from = 0;
          const ask = () => {
            from = arrivalInstant();
            return producer.cancel({ id: input.id });
          };
          cancels.set(input.id, (await insist(ask, signal)).canceled === 1);
          canceledAt.set(input.id, { from, until: arrivalInstant() });
        };
        const canceled = cancel();
        canceled.catch(() => undefined); // it is waited for at the end
        canceling.push(canceled);
      }
      onEnqueued(enqueued.size);
      await sleep(TICK_MS, undefined, { signal });
    }
    await Promise.all(canceling);
  } finally {
    await Promise.allSettled(canceling);
    await producer.close();
  }
  return { enqueued, cancels, canceledAt };
}

function countDue(bursts: readonly Burst[], nowMs: number): number {
  const next = bursts.findIndex(({ atMs }) => atMs > nowMs);
  return next < 0 ? bursts.length : next;
}

function withExpiry({ input, expiresInMs }: Burst['items'][number], now: number): ToDevices {
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
