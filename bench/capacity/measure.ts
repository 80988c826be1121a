import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { DEAD_LETTERS, historyKeys, outcomesKey, QUEUE } from '../../src/queue/names.ts';
import { bytesPerRecipient, ourSends, type Crowd } from '../limiter/memory.ts';
import {
  bytesOf,
  countCommands,
  openBenchQueue,
  PREFIX,
  usageOf,
  withClient,
  type BenchQueue,
  type Usage,
} from '../redis.ts';
import type { Counters } from '../throughput/providers.ts';
import { makeJobs, startWorker, type MeasuredWorker } from '../throughput/run.ts';
import type { Constants, Use, Work } from './model.ts';

/** How many notifications each figure is of. */
export interface Sizes {
  /** Those that wait. */
  readonly waiting: number;
  /** Those that end. */
  readonly ended: number;
  /** Those whose way is measured. */
  readonly jobs: number;
}

export interface Surroundings {
  /** The loopback providers. */
  readonly counters: Counters;
  /** Where the workers' log goes. */
  readonly dir: string;
  readonly say: (line: string) => void;
}

type Memory = Pick<
  Constants,
  | 'jsonBytes'
  | 'waitingBytes'
  | 'reservedBytes'
  | 'lineBytes'
  | 'deliveredBytes'
  | 'deadLetterBytes'
  | 'deadLetterInFirstHourBytes'
  | 'recipientBytes'
  | 'furtherAlertBytes'
  | 'manyAlertsBytes'
  | 'storyBytes'
  | 'outcomeBytes'
  | 'shardBytes'
>;

/** Alerts to one recipient: the first is sent, and the others wait in a line. */
const LINES = { long: 100, short: 2 } as const;
/** The first of a line is sent, and the others get slots up to 17 hours ahead. */
const ONE_IN_TEN_MINUTES = { LIMIT_RULES: '1/10m', LIMIT_MIN_GAP: '0' };
/** The limiter forgets a recipient a second after the alert, so that the job alone is counted. */
const SOON_FORGOTTEN = { LIMIT_RULES: '10/1s', LIMIT_MIN_GAP: '0' };
const RECORDED = { HISTORY_MAX: '1000000', OUTCOMES_MAX: '1000000' };

/** Bytes of Redis for each. */
export async function measureMemory({ waiting, ended }: Sizes, around: Surroundings): Promise<Memory> {
  const { counters, dir, say } = around;
  const total = (count: number, forEach: number, then?: (url: string) => Promise<void>): Promise<number> =>
    bytesOf(async (url) => {
      const queue = openBenchQueue(url);
      await queue.add(makeNotifications('job', count, forEach)).finally(() => queue.close());
      await then?.(url);
    });
  // No platform has credentials, so each becomes a dead letter, `provider-not-configured`.
  const deadLetters = async (then?: (url: string) => Promise<void>): Promise<number> =>
    (await total(ended, 1, async (url) => {
      await workUntil('dead', ended, url, dir, { CREDENTIALS_WAIT: '0', ALLOW_NO_CREDENTIALS: 'true' });
      await then?.(url);
    })) / ended;
  const recipientWith = (sends: number, crowd: Crowd): Promise<number> => bytesPerRecipient(ourSends, sends, crowd);
  const copied = { originals: 256, copies: Math.ceil(ended / 256) };

  say('bytes of a recipient');
  const [with1, with60] = [await recipientWith(1, copied), await recipientWith(60, copied)];
  // Redis draws the height of each entry of a long set by lot, so copies would differ.
  const with200 = await recipientWith(200, { originals: 64, copies: 1 });
  say(`bytes of a waiting notification: of ${waiting}`);
  let shardBytes = NaN;
  const waitingBytes = await total(waiting, 1, async (url) => {
    shardBytes = await keyBytes(url, `${PREFIX}:${QUEUE}:events`);
  });
  say(`bytes of one that was delivered, and of a dead letter: of ${ended} each`);
  const delivered = (env: Readonly<Record<string, string>>, then?: (url: string) => Promise<void>): Promise<number> =>
    total(ended, 1, async (url) => {
      await workUntil('completed', ended, url, dir, { ...counters.env, ...SOON_FORGOTTEN, ...env });
      await untilExpired(url, ended);
      await then?.(url);
    });
  const deliveredBytes = ((await delivered({})) - shardBytes) / ended;
  let [storyBytes, outcomeBytes] = [NaN, NaN];
  await delivered(RECORDED, async (url) => {
    const { stories, ends } = historyKeys(PREFIX);
    storyBytes = ((await keyBytes(url, stories)) + (await keyBytes(url, ends))) / ended;
    outcomeBytes = (await keyBytes(url, outcomesKey(PREFIX))) / ended;
  });
  const deadLetterInFirstHourBytes = await deadLetters();
  const deadLetterBytes = await deadLetters((url) => forgetIds(url, ended));
  /** With its share of the line. */
  const reserved = async (line: number): Promise<number> => {
    say(`bytes of one that waits for its slot: of ${waiting}, ${line} to a recipient`);
    const sent = waiting / line;
    const bytes = await total(waiting, line, (url) =>
      workUntil('delayed', waiting - sent, url, dir, { ...counters.env, ...ONE_IN_TEN_MINUTES }),
    );
    return (bytes - shardBytes - sent * (deliveredBytes + with1)) / (waiting - sent);
  };
  const [inLong, inShort] = [await reserved(LINES.long), await reserved(LINES.short)];
  const shares = { long: 1 / (LINES.long - 1), short: 1 / (LINES.short - 1) };
  const lineBytes = (inShort - inLong) / (shares.short - shares.long);
  return {
    jsonBytes: Buffer.byteLength(JSON.stringify(makeNotifications('job', 1, 1)[0])),
    waitingBytes: (waitingBytes - shardBytes) / waiting,
    reservedBytes: inLong - lineBytes * shares.long,
    ...{ lineBytes, deliveredBytes, deadLetterBytes, deadLetterInFirstHourBytes },
    recipientBytes: with1,
    furtherAlertBytes: (with60 - with1) / 59,
    manyAlertsBytes: with200 / 200,
    ...{ storyBytes, outcomeBytes, shardBytes },
  };
}

function keyBytes(url: string, key: string): Promise<number> {
  return withClient(url, async (redis) => Number(await redis.memory('USAGE', key, 'SAMPLES', 0)));
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
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const worker = await startMeasured(url, dir, env, FEW_AT_ONCE);
  let [latest, sinceMs] = [0, performance.now()];
  await withClient(url, async (connection) => {
    const queue = new Queue(state === 'dead' ? DEAD_LETTERS : QUEUE, { connection, prefix: PREFIX });
    for (;;) {
      const found = state === 'dead' ? await queue.count() : await queue.getJobCountByTypes(state);
      if (found >= count) break;
      await worker.expectAlive();
      if (found !== latest) [latest, sinceMs] = [found, performance.now()];
      if (performance.now() - sinceMs > STUCK_MS) throw new Error(`expected ${count} ${state}, found ${found}`);
      await sleep(POLL_MS);
    }
    await queue.close();
  }).finally(() => worker.stop());
}

/** One FCM device and 100 bytes of text each; `forEach` of them go to the same recipient. */
export function makeNotifications(batch: string, count: number, forEach: number) {
  return makeJobs('fcm', batch, count).map((job, index) => ({
    ...job,
    recipientId: `teacher-${batch}-${Math.floor(index / forEach)}`,
  }));
}

/** With more on a busy machine, admissions grow old before they are used, and the first of a line waits too. */
export const FEW_AT_ONCE = 16;

/** One worker process on the bench's queue. */
function startMeasured(
  url: string,
  dir: string,
  env: Readonly<Record<string, string>>,
  concurrency?: number,
): Promise<MeasuredWorker> {
  return startWorker({
    side: 'pushpacer',
    platform: 'fcm',
    env: { REDIS_URL: url, ...env },
    ...(concurrency !== undefined && { concurrency }),
    logFile: `${dir}/worker.log`,
  });
}

type Way = Pick<
  Constants,
  'commandsAtOnce' | 'commandsDeferred' | 'enqueue' | 'atOnce' | 'deferred' | 'requestBytes' | 'answerBytes'
>;

/** Of two to a recipient, the second is put back until the gap has passed. */
const GAP = { LIMIT_RULES: '10/1m', LIMIT_MIN_GAP: '3s' };
/** Jobs before the measured ones, until V8 has compiled the code of a job. */
const WARM_UP = 4_000;

/** What the way of a notification costs. The limiter has a Redis of its own here, so that its part is known. */
export async function measureWay({ jobs }: Sizes, { counters, dir, say }: Surroundings): Promise<Way> {
  await using servers = new AsyncDisposableStack();
  const queueAt = servers.use(await startEmbeddedRedis()).url;
  const limiterAt = servers.use(await startEmbeddedRedis()).url;
  const limiter = servers.adopt(new Redis(limiterAt), (it) => it.disconnect());
  const queue = servers.adopt(openBenchQueue(queueAt), (it) => it.close());
  await queue.queue.pause();
  const env = { ...counters.env, LIMITER_REDIS_URL: limiterAt, ...GAP };
  const worker = await startMeasured(queueAt, dir, env);
  servers.defer(() => worker.stop());
  const parts = { queueAt, limiterAt, queue, limiter, worker, counters };
  await deliver('warm', WARM_UP, 1, parts);
  say(`commands, bytes and processor time: ${jobs} delivered at once`);
  const atOnce = await costOf('at-once', jobs, 1, parts);
  say(`the same: ${2 * jobs}, of which every second one is put back once`);
  const pair = await costOf('pair', 2 * jobs, 2, parts);
  // Of a pair the first is delivered at once; the mean of both was measured.
  const second = (of: (cost: Cost) => number): number => 2 * of(pair) - of(atOnce);
  const useOf = (of: (cost: Cost) => Use): Use => ({
    inBytes: second((cost) => of(cost).inBytes),
    outBytes: second((cost) => of(cost).outBytes),
    redisMs: second((cost) => of(cost).redisMs),
  });
  return {
    commandsAtOnce: atOnce.commands,
    commandsDeferred: second(({ commands }) => commands),
    enqueue: atOnce.enqueue,
    atOnce: { queue: atOnce.queue, limiter: atOnce.limiter, workerMs: atOnce.workerMs },
    deferred: {
      queue: useOf((cost) => cost.queue),
      limiter: useOf((cost) => cost.limiter),
      workerMs: second(({ workerMs }) => workerMs),
    },
    requestBytes: atOnce.requestBytes,
    answerBytes: atOnce.answerBytes,
  };
}

/** Means over many notifications. */
interface Cost extends Work {
  readonly commands: number;
  readonly enqueue: Use;
  readonly requestBytes: number;
  readonly answerBytes: number;
}

interface Servers {
  readonly queueAt: string;
  readonly limiterAt: string;
  readonly queue: BenchQueue;
  readonly limiter: Redis;
  readonly worker: MeasuredWorker;
  readonly counters: Counters;
}

/** Commands are counted in a batch of their own, because counting slows Redis down. */
async function costOf(batch: string, jobs: number, forEach: number, servers: Servers): Promise<Cost> {
  const measured = await deliver(batch, jobs, forEach, servers);
  const { queueAt, limiterAt, queue, limiter } = servers;
  const commands = await countCommands([queueAt, limiterAt], [queue.connection, limiter], () =>
    deliver(`${batch}-counted`, jobs, forEach, servers),
  );
  return { ...measured, commands: commands / jobs };
}

/** All are in the queue before the first is taken, so that a producer's part is apart. */
async function deliver(
  batch: string,
  jobs: number,
  forEach: number,
  { queue, limiter, worker, counters }: Servers,
): Promise<Omit<Cost, 'commands'>> {
  const look = async () => ({
    queue: await usageOf(queue.connection),
    limiter: await usageOf(limiter),
    providers: await counters.report(),
    cpuMs: await worker.cpuMs(),
  });
  await queue.queue.pause();
  const first = await look();
  await queue.add(makeNotifications(batch, jobs, forEach));
  const before = await look();
  await queue.queue.resume();
  await queue.settled();
  await worker.expectAlive();
  const after = await look();
  return {
    enqueue: useBetween(first.queue, before.queue, jobs),
    queue: useBetween(before.queue, after.queue, jobs),
    limiter: useBetween(before.limiter, after.limiter, jobs),
    workerMs: (after.cpuMs - before.cpuMs) / jobs,
    requestBytes: (after.providers.inBytes - before.providers.inBytes) / jobs,
    answerBytes: (after.providers.outBytes - before.providers.outBytes) / jobs,
  };
}

function useBetween(before: Usage, after: Usage, jobs: number): Use {
  return {
    inBytes: (after.inBytes - before.inBytes) / jobs,
    outBytes: (after.outBytes - before.outBytes) / jobs,
    redisMs: (after.cpuMs - before.cpuMs) / jobs,
  };
}
