import { Queue } from 'bullmq';
import type { Cluster, Redis } from 'ioredis';
import { expect, onTestFinished, vi } from 'vitest';
import { DEAD_LETTERS, PRIORITY, QUEUE, shardOf, shardPrefixes } from '../../src/queue/names.ts';
import type { EmbeddedRedisOptions } from '../../sandbox/redis/embedded-redis.ts';
import type { Notification } from '../../src/notification/notification.ts';
import { judge, type Arrival, type Verdict } from '../../sandbox/judge.ts';
import { startProviders, type ProvidersProcess } from '../../demo/providers-process.ts';
import { DELAYS } from '../../demo/replicas.ts';
import { ownRedis } from './own-redis.ts';
import { startProcess, type TestProcess } from './process.ts';
import { makeNotification } from './push.ts';
import { delaysOf } from './real-bench.ts';
import { connectRedis, testPrefix } from './redis.ts';

/** What the workers keep to beside the gap; short, so that a test sees several windows. */
const RULES = { text: '6/2500ms', rules: [{ max: 6, perMs: 2_500 }] };

/** How long all that was enqueued may take to end; it only ends a test that would fail anyway. */
const SETTLED_WITHIN_MS = 40_000;

type Env = Readonly<Record<string, string>>;
export type FaultWorker = TestProcess & { readonly url: string };

/** Workers at the loopback providers, with a Redis that a test may treat badly. */
export interface FaultBench {
  readonly providers: ProvidersProcess;
  /** Of the first shard. */
  readonly queue: Queue;
  readonly deadQueue: Queue;
  readonly prefix: string;
  readonly env: Env;
  /** Starts one more worker and resolves when it consumes. */
  startWorker(env?: Env): Promise<FaultWorker>;
  /** One more notification, in turn to these recipients, which the test itself enqueues. */
  make(recipients: number): Notification;
  /** Enqueues so many notifications, in turn to these recipients. */
  add(count: number, recipients?: number): Promise<void>;
  /** Resolves when so many alerts went out. */
  delivered(count: number): Promise<void>;
  /** Resolves when all that was added is completed; nothing is lost, and nothing is a dead letter. */
  completed(withinMs?: number): Promise<void>;
  /** How many alerts went out. */
  alerts(): number;
  /** What the providers got, with the delays that the processes measured themselves. */
  arrivals(): readonly Arrival[];
  /** All that the providers got, or a part of it, judged by the policy. */
  verdict(of?: readonly Arrival[]): Verdict;
}

export interface FaultBenchOptions {
  /** The test's own way to Redis, past all faults; it outlives restarts. */
  readonly connection: Redis | Cluster;
  /** REDIS_URL of the workers, and whatever else they need. */
  readonly env: Env;
  /** The least time between two alerts to one recipient; 300. */
  readonly minGapMs?: number;
  /** QUEUE_PREFIX; one that no other test has. */
  readonly prefix?: string;
  /** QUEUE_SHARDS; 1. */
  readonly shards?: number;
}

export async function openFaultBench({
  connection,
  env: given,
  minGapMs = 300,
  prefix = testPrefix(),
  shards = 1,
}: FaultBenchOptions): Promise<FaultBench> {
  const providers = await startProviders();
  onTestFinished(() => providers.close());
  const prefixes = shardPrefixes(prefix, shards);
  const open = (name: string): Queue[] => prefixes.map((of) => new Queue(name, { connection, prefix: of }));
  const [queues, deadQueues] = [open(QUEUE), open(DEAD_LETTERS)];
  const [queue, deadQueue] = [...queues.slice(0, 1), ...deadQueues.slice(0, 1)] as [Queue, Queue];
  const both = [...queues, ...deadQueues];
  connection.on('error', () => undefined); // it dies on purpose
  for (const each of both) each.on('error', () => undefined);
  onTestFinished(async () => {
    await Promise.all(both.map((each) => each.close()));
  });
  const sum = async (counts: readonly Promise<number>[]): Promise<number> =>
    (await Promise.all(counts)).reduce((total, count) => total + count, 0);
  const policy = { LIMIT_RULES: RULES.text, LIMIT_MIN_GAP: `${minGapMs}ms` };
  const own = { QUEUE_PREFIX: prefix, QUEUE_SHARDS: String(shards), METRICS_PORT: '0' };
  const env = { ...providers.env, ...policy, ...own, ...given };
  const recipients = new Map<string, string>();
  const make = (among: number): Notification => {
    const index = recipients.size;
    const [id, recipientId] = [`fault-${index}`, `person-${index % among}`];
    recipients.set(id, recipientId);
    return makeNotification({ id, recipientId, data: { ref: id } });
  };

  const workers: TestProcess[] = [];
  const accepted = () => providers.entries.filter((entry) => entry.accepted);
  const arrivals = (): Arrival[] =>
    delaysOf(workers)
      .counted(accepted(), ({ data }) => data['ref'] ?? '')
      .map(({ data, token, at, delayMs }) => {
        const id = data['ref'] ?? '';
        return { recipientId: recipients.get(id) ?? '', notificationId: id, device: token, at, delayMs };
      });
  return {
    providers,
    queue,
    deadQueue,
    prefix,
    env,
    startWorker: async (more = {}) => {
      const args = ['--import', DELAYS, 'workers/notifications.ts'];
      const worker = startProcess({ args, env: { ...env, ...more } });
      workers.push(worker);
      const line = JSON.parse(await worker.waitForLine(/"msg":"ready"/)) as { metrics: string };
      return { ...worker, url: line.metrics };
    },
    make,
    add: async (count, among = 6) => {
      const jobs = Array.from({ length: count }, () => {
        const data = make(among);
        return { name: 'push', data, opts: { jobId: data.id, priority: PRIORITY.normal } };
      });
      for (const [shard, each] of queues.entries()) {
        const own = jobs.filter(({ data }) => shardOf(data.recipientId, shards) === shard);
        await eventually(() => each.addBulk(own)); // a second try adds none twice: the ids are the same
      }
    },
    delivered: (count) =>
      eventually(() => {
        expect(accepted().length).toBeGreaterThanOrEqual(count);
      }),
    completed: (withinMs = SETTLED_WITHIN_MS) =>
      eventually(async () => {
        const counts = {
          completed: await sum(queues.map((each) => each.getCompletedCount())),
          dead: await sum(deadQueues.map((each) => each.count())),
        };
        expect(counts).toEqual({ completed: recipients.size, dead: 0 });
        expect(new Set(arrivals().map(({ notificationId }) => notificationId)).size).toBe(recipients.size);
      }, withinMs),
    alerts: () => accepted().length,
    arrivals,
    verdict: (of = arrivals()) => judge(of, { rules: RULES.rules, minGapMs }),
  };
}

/** What a verdict is where the faults broke no promise. */
export const KEPT = { gapViolations: 0, windowViolations: 0, duplicates: 0 };

/** How long a test may take; it only ends one that would fail anyway. */
export const PATIENCE = { timeout: 180_000 };

/** Waits until the assertions pass, also through a Redis that does not answer for now. */
export function eventually<T>(facts: () => T | Promise<T>, withinMs = SETTLED_WITHIN_MS): Promise<T> {
  return vi.waitFor(facts, { timeout: withinMs, interval: 50 });
}

/** What a page of a worker answers; a page that takes longer than `withinMs` is a failure. */
export async function page(
  worker: FaultWorker,
  path: string,
  withinMs = 3_000,
): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${worker.url}${path}`, { signal: AbortSignal.timeout(withinMs) });
  return { status: answer.status, text: await answer.text() };
}

interface UnderWay {
  readonly redis?: EmbeddedRedisOptions;
  /** Of the workers, beside REDIS_URL. */
  readonly env?: Env;
  /** Default: 2. */
  readonly workers?: number;
  /** How many notifications, and how many recipients. */
  readonly add: readonly [count: number, recipients?: number];
  /** So many alerts went out. */
  readonly delivered: number;
}

/** Workers that are in the middle of their work, at a Redis of their own. */
export async function openUnderWay({ redis: options, env, workers: count = 2, add, delivered }: UnderWay) {
  const redis = await ownRedis(options);
  const connection = connectRedis(redis.url);
  const bench = await openFaultBench({ connection, env: { REDIS_URL: redis.url, ...env } });
  const workers = await Promise.all(Array.from({ length: count }, () => bench.startWorker()));
  await bench.add(...add);
  await bench.delivered(delivered);
  return { redis, connection, bench, workers };
}

/** Resolves when all workers say that they are ready. */
export async function allReady(workers: readonly FaultWorker[]): Promise<void> {
  for (const worker of workers) await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
}

/** All that was added is delivered, each at the first attempt, and the limits held. */
export async function allIsWell(bench: FaultBench, workers: readonly FaultWorker[]): Promise<void> {
  await bench.completed();
  expect(bench.verdict()).toMatchObject(KEPT);
  expect((await bench.queue.getJobs(['completed'])).every((job) => job.attemptsMade === 1)).toBe(true);
  await allReady(workers);
}
