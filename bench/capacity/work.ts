import { Redis } from 'ioredis';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { clientsOf, fieldOf } from '../bytes.ts';
import { openBenchQueue, type BenchQueue } from '../throughput/bench-queue.ts';
import { countClientCommands } from '../throughput/commands.ts';
import type { MeasuredWorker } from '../throughput/worker.ts';
import { makeNotifications, PREFIX, startMeasured, type Surroundings } from './workload.ts';

/** What one notification costs, and what a worker holds. */
export interface Work {
  readonly atOnce: Cost;
  /** Put back once, until its slot, and then delivered. */
  readonly deferred: Cost;
  /** Connections to Redis of one worker, with one shard. */
  readonly connections: number;
}

/** Means over many notifications. */
interface Cost {
  /** Commands that the worker sends to Redis. */
  readonly commands: number;
  /** Processor time in milliseconds of the worker's process, and of Redis. */
  readonly workerMs: number;
  readonly redisMs: number;
}

/** Of two to a recipient, the second is put back until the gap has passed. */
const GAP = { LIMIT_RULES: '10/1m', LIMIT_MIN_GAP: '3s' };
/** Jobs before the measured ones, until V8 has compiled the code of a job. */
const WARM_UP = 4_000;

/** `jobs`: how many each figure is the mean of. */
export async function measureWork(jobs: number, around: Surroundings, say: (line: string) => void): Promise<Work> {
  const server = await startEmbeddedRedis();
  const redis = new Redis(server.url);
  const queue = openBenchQueue(server.url, PREFIX);
  try {
    await queue.pause();
    const before = await clientsOf(redis);
    const worker = await startMeasured(server.url, around.dir, { ...around.env, ...GAP });
    try {
      const parts = { url: server.url, redis, queue, worker };
      await deliver('warm', WARM_UP, 1, parts);
      const connections = (await clientsOf(redis)) - before;
      say(`commands and processor time: ${jobs} delivered at once`);
      const atOnce = await costOf('at-once', jobs, 1, parts);
      say(`the same: ${2 * jobs}, of which every second one is put back once`);
      const pair = await costOf('pair', 2 * jobs, 2, parts);
      return { atOnce, deferred: secondOf(pair, atOnce), connections };
    } finally {
      await worker.stop();
    }
  } finally {
    await queue.close();
    redis.disconnect();
    await server.close();
  }
}

interface Parts {
  readonly url: string;
  readonly redis: Redis;
  readonly queue: BenchQueue;
  readonly worker: MeasuredWorker;
}

/** Commands are counted in a batch of their own, because counting slows Redis down. */
async function costOf(batch: string, jobs: number, forEach: number, parts: Parts): Promise<Cost> {
  const timed = await deliver(batch, jobs, forEach, parts);
  const own = new Set(await Promise.all([parts.redis, parts.queue.connection].map(addressOf)));
  const counter = await countClientCommands(parts.url, (address) => own.has(address));
  try {
    await deliver(`${batch}-counted`, jobs, forEach, parts);
    return { ...timed, commands: counter.count() / jobs };
  } finally {
    counter.stop();
  }
}

/** All are in the queue before the first is taken, so that no figure has a producer's part. */
async function deliver(batch: string, jobs: number, forEach: number, { redis, queue, worker }: Parts) {
  await queue.pause();
  await queue.add(makeNotifications(batch, jobs, forEach));
  const before = { worker: await worker.cpuMs(), redis: await redisCpuMs(redis) };
  await queue.resume();
  await queue.empty();
  await worker.expectAlive();
  const after = { worker: await worker.cpuMs(), redis: await redisCpuMs(redis) };
  return { workerMs: (after.worker - before.worker) / jobs, redisMs: (after.redis - before.redis) / jobs };
}

/** Of a pair the first is delivered at once; the mean of both is given. */
function secondOf(pair: Cost, first: Cost): Cost {
  return {
    commands: 2 * pair.commands - first.commands,
    workerMs: 2 * pair.workerMs - first.workerMs,
    redisMs: 2 * pair.redisMs - first.redisMs,
  };
}

async function redisCpuMs(redis: Redis): Promise<number> {
  const info = await redis.info('cpu');
  return 1_000 * (fieldOf(info, 'used_cpu_user') + fieldOf(info, 'used_cpu_sys'));
}

async function addressOf(redis: Redis): Promise<string> {
  return /\baddr=(\S+)/.exec(await redis.client('INFO'))?.[1] ?? '';
}
