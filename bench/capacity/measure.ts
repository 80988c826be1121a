import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';
import { bytesPerRecipient, ourSends } from '../limiter/memory.ts';
import {
  bytesOf,
  clientsOf,
  countCommands,
  openBenchQueue,
  PREFIX,
  redisCpuMs,
  withClient,
  type BenchQueue,
} from '../redis.ts';
import { makeJobs, startWorker, type MeasuredWorker } from '../throughput/run.ts';

/** How many notifications are in Redis while bytes are counted. */
export interface Sizes {
  readonly few: number;
  readonly many: number;
}

export interface Surroundings {
  /** Points a worker at loopback providers. */
  readonly env: Readonly<Record<string, string>>;
  /** Where the workers' log goes. */
  readonly dir: string;
  readonly say: (line: string) => void;
}

/** Bytes of Redis for each. */
export interface Memory {
  /** The notification itself, as JSON. It is in the next four. */
  readonly json: number;
  /** In the queue, and no worker has looked at it yet. */
  readonly waiting: Sizes;
  /** Put back until its slot, in a line of 100 to its recipient. Its slot is counted too. */
  readonly reserved: Sizes;
  /** Delivered: its id stays taken for an hour. */
  readonly delivered: number;
  /** After an hour, and before, when the failed job still keeps its id taken. */
  readonly deadLetter: number;
  readonly deadLetterInFirstHour: number;
  /** A recipient by the number of alerts within the longest window. */
  readonly recipientWith1: number;
  readonly recipientWith10: number;
  readonly recipientWith60: number;
}

/** How many wait for one recipient. */
const LINE = 100;
/** The first of a line is sent, and the others get slots up to 17 hours ahead. */
const ONE_IN_TEN_MINUTES = { LIMIT_RULES: '1/10m', LIMIT_MIN_GAP: '0' };
/** The limiter forgets a recipient a second after the alert, so that the job alone is counted. */
const SOON_FORGOTTEN = { LIMIT_RULES: '10/1s', LIMIT_MIN_GAP: '0' };

export async function measureMemory({ few, many }: Sizes, around: Surroundings): Promise<Memory> {
  const { env, dir, say } = around;
  const bytesEach = async (count: number, forEach: number, then?: (url: string) => Promise<void>): Promise<number> => {
    const notifications = makeNotifications('job', count, forEach);
    const bytes = await bytesOf(async (url) => {
      const queue = openBenchQueue(url);
      await queue.add(notifications).finally(() => queue.close());
      await then?.(url);
    });
    return bytes / count;
  };
  const waitingBytes = (count: number): Promise<number> => bytesEach(count, 1);
  const reservedBytes = async (count: number): Promise<number> => {
    const waiting = count - count / LINE;
    const each = await bytesEach(count, LINE, (url) =>
      workUntil('delayed', waiting, url, dir, { ...env, ...ONE_IN_TEN_MINUTES }),
    );
    return (each * count) / waiting;
  };
  // No platform has credentials, so each becomes a dead letter, `provider-not-configured`.
  const deadLetterBytes = (then?: (url: string) => Promise<void>): Promise<number> =>
    bytesEach(few, 1, async (url) => {
      await workUntil('dead', few, url, dir, {});
      await then?.(url);
    });

  say(`bytes of a waiting notification: ${few} and ${many}`);
  const waiting = { few: await waitingBytes(few), many: await waitingBytes(many) };
  say(`bytes of one that waits for its slot: ${few} and ${many}, ${LINE} to a recipient`);
  const reserved = { few: await reservedBytes(few), many: await reservedBytes(many) };
  say(`bytes of one that was delivered, and of a dead letter: ${few} each`);
  const delivered = await bytesEach(few, 1, async (url) => {
    await workUntil('completed', few, url, dir, { ...env, ...SOON_FORGOTTEN });
    await untilExpired(url, few);
  });
  const deadLetterInFirstHour = await deadLetterBytes();
  const deadLetter = await deadLetterBytes((url) => forgetIds(url, few));
  say('bytes of a recipient');
  const recipientWith = (sends: number): Promise<number> =>
    bytesPerRecipient(ourSends, sends, { originals: 256, copies: Math.ceil(few / 256) });
  return {
    json: Buffer.byteLength(JSON.stringify(makeNotifications('job', 1, 1)[0])),
    ...{ waiting, reserved, delivered, deadLetter, deadLetterInFirstHour },
    recipientWith1: await recipientWith(1),
    recipientWith10: await recipientWith(10),
    recipientWith60: await recipientWith(60),
  };
}

/** Removes the failed jobs, as Redis does when their hour has passed. */
async function forgetIds(url: string, count: number): Promise<void> {
  const keys = makeNotifications('job', count, 1).map(({ id }) => `${PREFIX}:${QUEUE}:${id}`);
  const removed = await withClient(url, (redis) => redis.del(keys));
  if (removed !== count) throw new Error(`expected ${count} failed jobs, found ${removed}`);
}

/** Waits until Redis has removed the recipients that have expired: fewer than 100 keys are no job's then. */
function untilExpired(url: string, jobs: number): Promise<void> {
  return withClient(url, async (redis) => {
    while ((await redis.dbsize()) > jobs + 100) await sleep(100);
  });
}

const POLL_MS = 50;
/** If no count changes for this long, the run fails. */
const STUCK_MS = 30_000;

/** Has a worker deal with what is in the queue until so many are in that state. Throws where their number stops growing before. */
async function workUntil(
  state: 'delayed' | 'completed' | 'dead',
  count: number,
  url: string,
  dir: string,
  env: Surroundings['env'],
): Promise<void> {
  const worker = await startMeasured(url, dir, env);
  let [latest, sinceMs] = [0, performance.now()];
  await withClient(url, async (connection) => {
    const queue = new Queue(state === 'dead' ? DEAD_LETTERS : QUEUE, { connection, prefix: PREFIX });
    for (;;) {
      const found = state === 'dead' ? await queue.count() : await queue.getJobCountByTypes(state);
      if (found === count) break;
      await worker.expectAlive();
      if (found !== latest) [latest, sinceMs] = [found, performance.now()];
      if (performance.now() - sinceMs > STUCK_MS) throw new Error(`expected ${count} ${state}, found ${found}`);
      await sleep(POLL_MS);
    }
    await queue.close();
  }).finally(() => worker.stop());
}

/** One FCM device and 100 bytes of text each; `forEach` of them go to the same recipient. */
function makeNotifications(batch: string, count: number, forEach: number) {
  return makeJobs('fcm', batch, count).map((job, index) => ({
    ...job,
    recipientId: `teacher-${batch}-${Math.floor(index / forEach)}`,
  }));
}

/** One worker process on the bench's queue. */
function startMeasured(url: string, dir: string, env: Surroundings['env']): Promise<MeasuredWorker> {
  return startWorker({
    side: 'pushpacer',
    platform: 'fcm',
    env: { REDIS_URL: url, ...env },
    logFile: `${dir}/worker.log`,
  });
}

/** What one notification costs, and the memory of a worker. */
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
export async function measureWork(jobs: number, { env, dir, say }: Surroundings): Promise<Work> {
  const server = await startEmbeddedRedis();
  const queue = openBenchQueue(server.url);
  try {
    await queue.queue.pause();
    const before = await clientsOf(queue.connection);
    const worker = await startMeasured(server.url, dir, { ...env, ...GAP });
    try {
      const parts = { url: server.url, queue, worker };
      await deliver('warm', WARM_UP, 1, parts);
      const connections = (await clientsOf(queue.connection)) - before;
      say(`commands and processor time: ${jobs} delivered at once`);
      const atOnce = await costOf('at-once', jobs, 1, parts);
      say(`the same: ${2 * jobs}, of which every second one is put back once`);
      const pair = await costOf('pair', 2 * jobs, 2, parts);
      // Of a pair the first is delivered at once; the mean of both was measured.
      const deferred = {
        commands: 2 * pair.commands - atOnce.commands,
        workerMs: 2 * pair.workerMs - atOnce.workerMs,
        redisMs: 2 * pair.redisMs - atOnce.redisMs,
      };
      return { atOnce, deferred, connections };
    } finally {
      await worker.stop();
    }
  } finally {
    await queue.close();
    await server.close();
  }
}

interface Parts {
  readonly url: string;
  readonly queue: BenchQueue;
  readonly worker: MeasuredWorker;
}

/** Commands are counted in a batch of their own, because counting slows Redis down. */
async function costOf(batch: string, jobs: number, forEach: number, parts: Parts): Promise<Cost> {
  const timed = await deliver(batch, jobs, forEach, parts);
  const commands = await countCommands(parts.url, [parts.queue.connection], () =>
    deliver(`${batch}-counted`, jobs, forEach, parts),
  );
  return { ...timed, commands: commands / jobs };
}

/** All are in the queue before the first is taken, so that no figure has a producer's part. */
async function deliver(batch: string, jobs: number, forEach: number, { queue, worker }: Parts) {
  await queue.queue.pause();
  await queue.add(makeNotifications(batch, jobs, forEach));
  const before = { worker: await worker.cpuMs(), redis: await redisCpuMs(queue.connection) };
  await queue.queue.resume();
  await queue.settled();
  await worker.expectAlive();
  const after = { worker: await worker.cpuMs(), redis: await redisCpuMs(queue.connection) };
  return { workerMs: (after.worker - before.worker) / jobs, redisMs: (after.redis - before.redis) / jobs };
}
