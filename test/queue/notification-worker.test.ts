import { setTimeout as sleep } from 'node:timers/promises';
import { DelayedError, Queue, UnrecoverableError, type Job, type Processor } from 'bullmq';
import type { Redis } from 'ioredis';
import { expect, onTestFinished, test } from 'vitest';
import { createJobLock } from '../../src/queue/job-lock.ts';
import { redelay } from '../../src/queue/redelay.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { NotificationWorker, workerOptions, type Place } from '../../src/queue/notification-worker.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { notification } from './support.ts';

/** Is not lost because the machine is busy. */
const LONG_LOCK_MS = 60_000;
/** Neither, since it is renewed every two seconds; a test may wait for that. */
const RENEWED_LOCK_MS = 8_000;

function open(
  processor: (job: Job, token: string | undefined, place: Place) => Promise<unknown>,
  redisUrl = testRedisUrl(),
  offsetMs = 0,
  concurrency = 5,
  lockMs = LONG_LOCK_MS,
) {
  const prefix = testPrefix();
  const connection = connectRedis(redisUrl);
  const queue = new Queue(QUEUE, { connection, prefix });
  const letGo: string[] = [];
  const options = workerOptions({ connection, prefix, concurrency, lockMs, maxStalls: 10 });
  const onLetGo = (job: Pick<Job, 'id'>, error: Error) => {
    letGo.push(`${job.id}: ${error.message}`);
  };
  const process: Processor = (job, token) => processor(job, token, worker.place);
  const worker: NotificationWorker = new NotificationWorker(QUEUE, process, options, onLetGo, () => offsetMs);
  worker.on('error', () => undefined);
  void worker.run();
  onTestFinished(async () => {
    await worker.close();
    await queue.close();
  });
  return { queue, worker, letGo, lockKey: (id: string) => `${queue.toKey(id)}:lock`, redis: connectRedis(redisUrl) };
}

/** As when its lock expires: the worker finds its own job stalled, and takes it again. */
async function stall(queue: Queue, redis: Redis, jobId: string): Promise<void> {
  await redis.del(`${queue.toKey(jobId)}:lock`);
  await redis.sadd(queue.toKey('stalled'), jobId);
}

/** Resolves when the lock was renewed twice: its remaining time grows only then. A lock that expired never grows again. */
async function renewedTwice(redis: Redis, lockKey: string): Promise<void> {
  let [lastMs, renewals] = [await redis.pttl(lockKey), 0];
  await waitFor(async () => {
    const leftMs = await redis.pttl(lockKey);
    if (leftMs > lastMs) renewals += 1;
    lastMs = leftMs;
    expect(renewals).toBeGreaterThanOrEqual(2);
  });
}

test('a job whose end Redis refuses for now is completed when it does not any more, and never failed', async () => {
  const server = await ownRedis();
  const admin = connectRedis(server.url);
  let runs = 0;
  const processor = async () => {
    runs += 1;
    await admin.replicaof('127.0.0.1', 1); // from here on it is read-only, as a master that was demoted
    return { outcome: 'delivered' };
  };
  const { queue, letGo } = open(processor, server.url);
  await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  await waitFor(() => expect(runs).toBe(1));
  await sleep(500);
  await admin.replicaof('NO', 'ONE');
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
  expect({ runs, letGo, failed: await queue.getFailedCount() }).toEqual({ runs: 1, letGo: [], failed: 0 });
});

test('a Redis that forgets its scripts all the time takes all that is written at once: no job waits for its lock’s end', async () => {
  const [jobs, lockMs, passes, errors] = [2_000, 200_000, new Map<string, number>(), new Set<string>()];
  const server = await ownRedis(); // the flush would reach all tests
  const processor = async (job: Job, token = ''): Promise<unknown> => {
    const pass = (passes.get(job.id ?? '') ?? 0) + 1;
    passes.set(job.id ?? '', pass);
    const lock = createJobLock(job, token, { queue: worker, lockMs });
    if (pass === 1) {
      await lock.putBack(20, {});
      throw new DelayedError();
    }
    await worker.extendJobLocks([job.id ?? ''], [token], lockMs);
    expect(await lock.save({})).toBe(true);
    return { outcome: 'delivered' };
  };
  const { queue, worker, letGo, redis } = open(processor, server.url, 0, 50, lockMs);
  worker.on('error', ({ message }) => errors.add(message));
  await worker.pause();
  await queue.addBulk(
    Array.from({ length: jobs }, (_, n) => ({ name: 'push', data: {}, opts: { jobId: `j${n}`, priority: 10 } })),
  );
  await worker.resume();
  const giveUpAt = performance.now() + lockMs / 2;
  while (performance.now() < giveUpAt && (await queue.getCompletedCount()) < jobs) {
    await redis.script('FLUSH');
    await sleep(5);
  }
  const done = await queue.getCompletedCount();
  expect({ done, letGo, errors: [...errors] }).toEqual({ done: jobs, letGo: [], errors: [] });
  expect(new Set(passes.values())).toEqual(new Set([2]));
});

test('jobs whose locks are all gone, as after a step of Redis’s clock, end once where nobody has begun them', async () => {
  const underWay = new Set<string>();
  let runs = 0;
  const locksGone = Promise.withResolvers<undefined>();
  const processor = async (job: Job) => {
    runs += 1;
    underWay.add(job.id ?? '');
    await locksGone.promise;
    if (job.id === 'j0') throw new UnrecoverableError('rejected: for good');
    return { outcome: 'delivered' };
  };
  const { queue, letGo, lockKey, redis } = open(processor, testRedisUrl(), 0, 50);
  await queue.addBulk(
    Array.from({ length: 40 }, (_, n) => ({ name: 'push', data: {}, opts: { jobId: `j${n}`, priority: 10 } })),
  );
  await waitFor(() => expect(underWay.size).toBe(40));
  for (const id of underWay) await redis.del(lockKey(id));
  locksGone.resolve(undefined);
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(39));
  await waitFor(async () => expect(await queue.getFailedCount()).toBe(1));
  expect({ runs, letGo, active: await queue.getActiveCount() }).toEqual({ runs: 40, letGo: [], active: 0 });
  expect(await redis.exists(...[...underWay].map(lockKey))).toBe(0);
});

test.for<[string, (redis: Redis, queue: Queue) => Promise<unknown>, string]>([
  ['was found stalled', (redis, queue) => redis.lrem(queue.toKey('active'), 1, 'one'), 'Missing lock for job one'],
  [
    'was begun by another worker whose lock is gone too',
    (redis, queue) => redis.hincrby(queue.toKey('one'), 'ats', 1),
    'Missing lock for job one',
  ],
  [
    'is another worker’s',
    (redis, queue) => redis.set(`${queue.toKey('one')}:lock`, 'theirs'),
    'Lock mismatch for job one',
  ],
])('a job that is done, but %s, is let go', async ([, change, message]) => {
  const { queue, letGo, lockKey, redis } = open(async (job) => {
    await redis.del(lockKey(job.id ?? ''));
    await change(redis, queue);
    return { outcome: 'delivered' };
  });
  await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  await waitFor(() => expect(letGo).toHaveLength(1));
  expect(letGo).toEqual([expect.stringContaining(`one: ${message}`)]);
  expect(await queue.getCompletedCount()).toBe(0);
  expect(await queue.getFailedCount()).toBe(0);
});

test('a job that was found stalled while it was under way comes back', async () => {
  let runs = 0;
  const { queue, letGo, redis } = open(async () => {
    runs += 1;
    if (runs === 1) {
      await stall(queue, redis, 'one');
      await waitFor(() => expect(runs).toBe(2));
    }
    return { outcome: 'delivered' };
  });
  await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  await waitFor(() => expect(letGo).toHaveLength(1));
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
  expect(runs).toBe(2);
  expect(letGo).toEqual([expect.stringMatching(/^one: .*job one/)]);
  expect(await queue.getFailedCount()).toBe(0);
});

test('an error that is not the processor’s verdict fails no job', async () => {
  let runs = 0;
  const processor = () => {
    runs += 1;
    return runs === 1 ? Promise.reject(new Error('Command timed out')) : Promise.resolve({});
  };
  // Nobody renews the lock of a job that was let go, so it ends by itself, and the job comes back.
  const { queue, letGo } = open(processor, testRedisUrl(), 0, 5, RENEWED_LOCK_MS);
  await queue.add('push', notification(), { jobId: 'one', priority: 10, attempts: 1 });
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
  expect(letGo).toEqual(['one: Command timed out']);
});

test('a pass that ends does not take the lock’s renewal from a later one of the same job in the same worker', async () => {
  const passes: (() => void)[] = [];
  const processor = async () => {
    await new Promise<void>((resolve) => passes.push(resolve)); // ends when the test calls it
    return { outcome: 'delivered' };
  };
  const { queue, lockKey, redis } = open(processor, testRedisUrl(), 0, 5, RENEWED_LOCK_MS);
  await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  await waitFor(() => expect(passes).toHaveLength(1));
  await stall(queue, redis, 'one');
  await waitFor(() => expect(passes).toHaveLength(2));
  passes[0]?.();
  await sleep(50); // until the first pass has ended
  await renewedTwice(redis, lockKey('one'));
  const begun = passes.length;
  for (const end of passes) end();
  expect(begun).toBe(2);
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
});

test.for([-60_000, 60_000])(
  'jobs are renewed and judged by this machine’s clock where Redis’s is %i ms from it',
  async (offsetMs) => {
    const passes: { id: string; ageMs: number }[] = [];
    const processor = async (job: Job) => {
      passes.push({ id: job.id ?? '', ageMs: Date.now() - (job.processedOn ?? NaN) });
      if (job.id === 'long') await renewedTwice(redis, lockKey('long'));
      return { outcome: 'delivered' };
    };
    const { queue, letGo, redis, lockKey } = open(processor, testRedisUrl(), offsetMs, 5, RENEWED_LOCK_MS);
    for (const jobId of ['short', 'long', 'last']) await queue.add('push', notification(), { jobId, priority: 10 });
    await waitFor(async () => expect(await queue.getCompletedCount()).toBe(3));
    expect(passes.map(({ id }) => id).sort()).toEqual(['last', 'long', 'short']);
    for (const { ageMs } of passes) {
      expect(ageMs).toBeGreaterThanOrEqual(0);
      expect(ageMs).toBeLessThan(30_000);
    }
    // The end of a job is written on Redis's clock, as is every time.
    const ends = (await queue.getCompleted()).map(({ finishedOn = NaN }) => finishedOn);
    for (const end of ends) expect(Math.abs(end - Date.now() - offsetMs)).toBeLessThan(30_000);
    expect(letGo).toEqual([]);
  },
);

/** Jobs that wait for each other: they end a little after so many are under way at once. */
async function underWayAtOnce(jobs: number, concurrency: number, leaves: boolean) {
  const atOnce = leaves ? jobs : concurrency;
  let underWay = 0;
  let most = 0;
  const { queue, worker } = open(
    async (_, __, place) => {
      underWay += 1;
      most = Math.max(most, underWay);
      const comeBack = leaves ? place.leave() : () => undefined;
      await waitFor(() => expect(most).toBeGreaterThanOrEqual(atOnce)).catch(() => undefined);
      await sleep(300); // more would begin by then
      comeBack();
      underWay -= 1;
    },
    testRedisUrl(),
    0,
    concurrency,
  );
  await queue.addBulk(
    Array.from({ length: jobs }, (_, n) => ({ name: 'push', data: {}, opts: { jobId: `j${n}`, priority: 10 } })),
  );
  return { queue, worker, most: () => most, underWay: () => underWay };
}

test.for([1, 3])('jobs that sleep leave their places to others, with %i of them', async (concurrency) => {
  const { queue, worker, most } = await underWayAtOnce(10, concurrency, true);
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(10));
  expect(most()).toBe(10);
  await waitFor(() => expect(worker.concurrency).toBe(1)); // nothing is under way: the next place
});

test('jobs that do not sleep are as many at once as there are places', async () => {
  const { queue, most } = await underWayAtOnce(6, 3, false);
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(6));
  expect(most()).toBe(3);
});

test('a worker that stops waits for the jobs that sleep', async () => {
  const { queue, worker, most, underWay } = await underWayAtOnce(4, 1, true);
  await waitFor(() => expect(most()).toBeGreaterThan(1));
  await worker.close();
  expect(underWay()).toBe(0);
  expect(await queue.getActiveCount()).toBe(0);
});

test('a job is begun before the worker has taken as many as it has places for', async () => {
  const active: number[] = [];
  const { queue, worker } = open(
    async () => {
      active.push(await queue.getActiveCount());
      await waitFor(() => expect(active).toHaveLength(40)); // all are under way at once in the end
    },
    testRedisUrl(),
    0,
    50,
  );
  await worker.pause();
  await queue.addBulk(
    Array.from({ length: 40 }, (_, n) => ({ name: 'push', data: {}, opts: { jobId: `j${n}`, priority: 10 } })),
  );
  await worker.resume();
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(40));
  expect(active[0]).toBeLessThan(10); // BullMQ alone takes all 40 first
});

test('a job that was moved to later is due then by its progress, unless it was put back since', async () => {
  const taken = new Map<string | undefined, unknown>();
  const { queue, worker } = open((job) => Promise.resolve(taken.set(job.id, job.progress)));
  await worker.pause();
  const movedTo = Date.now() + 1_000;
  const dueAt = { moved: movedTo - 250, 'put-back': movedTo + 50 };
  for (const [jobId, at] of Object.entries(dueAt)) {
    const job = await queue.add('push', {}, { jobId, delay: 60_000 });
    await job.updateProgress({ dueAt: at, rule: 'gap' });
    await redelay([queue], [{ jobId, at: movedTo, why: { rule: 'block' } }]);
  }
  await worker.resume();
  await waitFor(() => expect(taken.size).toBe(2));
  expect(taken.get('moved')).toEqual({ dueAt: movedTo, rule: 'gap' });
  expect(taken.get('put-back')).toEqual({ dueAt: dueAt['put-back'], rule: 'gap' });
});
