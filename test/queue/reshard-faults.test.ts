import { Queue } from 'bullmq';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { lockKeyOf } from '../../src/queue/bullmq-internals.ts';
import { homeOf, openLayout, preparedLayout, movingLayout } from '../../src/queue/shards/layout.ts';
import { cancellationIndexKey, moveKeys, QUEUE } from '../../src/queue/names.ts';
import { NotificationWorker, workerOptions } from '../../src/queue/notification-worker.ts';
import { createMover } from '../../src/queue/shards/reshard.ts';
import { createShards } from '../../src/queue/shards/shards.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { dataOf, jobsIn, openReshard } from './moving.ts';
import { consume } from './support.ts';

// What a move of jobs leaves behind where Redis refuses a step, or where a process was killed, and what becomes of it.

describe('where Redis refuses a step of a script in its middle, nothing is lost, and nothing comes twice', () => {
  const key = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };

  /** A value of another kind makes commands with this key fail; it stands for a right that the user lacks. */
  test.each(['events', 'pc', 'marker', 'prioritized', 'index'])('notifications, at the key of %s', async (name) => {
    const { redis, layout, mover, moveAll, queueOf, formerQueueOf } = await openReshard();
    const [former, home] = [await formerQueueOf('teacher-42'), await queueOf('teacher-42')];
    const ids = Array.from({ length: 20 }, (_, n) => `n${n}`);
    for (const id of ids) {
      await former.add('push', dataOf(id, 'teacher-42', key), { jobId: id, priority: 10 });
      const index = cancellationIndexKey(former.opts.prefix ?? '', key.recipientId, key.cancellationKey);
      await redis.zadd(index, String(Date.now() + 3_600_000), id);
    }
    const index = cancellationIndexKey(homeOf('teacher-42', layout), key.recipientId, key.cancellationKey);
    const spoilt = name === 'index' ? index : home.toKey(name);
    await redis.del(spoilt);
    await redis.set(spoilt, 'of another kind');
    for (let fence = 1; fence <= 3; fence++) await expect(moveAll(mover(fence))).rejects.toThrow();
    await redis.del(spoilt);

    await moveAll(mover(9));
    expect(await jobsIn([home])).toEqual(Object.fromEntries(ids.map((id) => [id, 1])));
    expect((await home.getPrioritized()).map(({ id }) => id)).toHaveLength(ids.length);
    expect((await redis.zrange(index, '0', '-1')).toSorted()).toEqual(ids.toSorted());
    expect(await jobsIn([former])).toEqual({});
    expect(await redis.exists(moveKeys(former.opts.prefix ?? '').moving)).toBe(0);
  });

  test.each(['events', 'wait', 'marker'])('dead letters, at the key of %s', async (name) => {
    const { redis, shards, former, layout, mover, moveAll } = await openReshard();
    const { deadQueue } = await shards.at(former[0] ?? '');
    const ids = Array.from({ length: 20 }, (_, n) => `n${n}`);
    for (const id of ids) {
      await deadQueue.add('push', { reason: 'rejected', notification: dataOf(id, 'teacher-42') }, { jobId: id });
    }
    const { deadQueue: home } = await shards.at(homeOf('teacher-42', layout));
    await redis.del(home.toKey(name));
    await redis.set(home.toKey(name), 'of another kind');
    for (let fence = 1; fence <= 3; fence++) await expect(moveAll(mover(fence))).rejects.toThrow();
    await redis.del(home.toKey(name));

    await moveAll(mover(9));
    expect((await redis.lrange(home.toKey('wait'), 0, -1)).toSorted()).toEqual(ids.toSorted());
    for (const id of ids) expect(await redis.hexists(home.toKey(id), 'data'), id).toBe(1);
    expect(await redis.exists(deadQueue.toKey('wait'), moveKeys(former[0] ?? '').moving)).toBe(0);
  });
});

test('what a killed worker had in hand in a former queue is moved when its job lock is gone, and what failed there is buried', async () => {
  const { redis, shards, layout, moveAll, queueOf, formerQueueOf } = await openReshard();
  const queue = await formerQueueOf('teacher-42');
  for (const id of ['in-hand', 'gone-wrong']) {
    await queue.add('push', dataOf(id, 'teacher-42'), { jobId: id, priority: 10 });
    await redis.zrem(queue.toKey('prioritized'), id);
  }
  await redis.lpush(queue.toKey('active'), 'in-hand');
  await redis.set(`${queue.toKey('in-hand')}:lock`, 'of a worker', 'PX', 60_000);
  await redis.zadd(queue.toKey('failed'), Date.now(), 'gone-wrong');
  await redis.hset(queue.toKey('gone-wrong'), 'failedReason', 'job stalled more than allowable limit');
  const own = createMover({
    ...{ connection: redis, layout, lease: { fence: 1 } },
    open: (of) => shards.at(of),
    bury: (shard) => createDeadLetters(shard).sweep(),
  });
  await moveAll(own);
  expect(await own.left()).toMatchObject({ jobs: 0, active: 1 });
  expect(await (await shards.at(homeOf('teacher-42', layout))).deadQueue.getWaitingCount()).toBe(1);
  await redis.del(`${queue.toKey('in-hand')}:lock`);
  await moveAll(own);
  expect(await own.left()).toMatchObject({ jobs: 0, active: 0 });
  expect(await (await queueOf('teacher-42')).getJobState('in-hand')).toBe('waiting');
  expect(await redis.exists(queue.toKey('active'), queue.toKey('failed'))).toBe(0);
});

describe('a job whose worker was killed, in a former queue', () => {
  const MAX_STALLS = 3;

  /** A job that stalled so often before, and a worker that takes it and is killed. Resolves when its lock is gone. */
  async function openKilled(stalls: number) {
    const reshard = await openReshard();
    const queue = await reshard.formerQueueOf('teacher-42');
    await queue.add('push', dataOf('x', 'teacher-42'), { jobId: 'x', priority: 10 });
    if (stalls > 0) await reshard.redis.hset(queue.toKey('x'), 'stc', stalls);
    const taken = Promise.withResolvers<undefined>();
    const endless = (): Promise<void> => {
      taken.resolve(undefined);
      return new Promise(() => undefined);
    };
    const options = { lockDuration: 200, skipLockRenewal: true, skipStalledCheck: true };
    const worker = consume(queue.opts.prefix ?? '', endless, options);
    await taken.promise;
    await worker.close(true);
    await waitFor(async () => expect(await reshard.redis.exists(lockKeyOf(queue, 'x'))).toBe(0));
    return { ...reshard, home: await reshard.queueOf('teacher-42') };
  }

  test('has stalled once more when it is moved, though the process that moves it is killed at each step', async () => {
    const { mover, moveAll, home } = await openKilled(1);
    for (const [index, last] of ['taken', 'put', 'dropped'].entries()) {
      const dying = (step: string): void => {
        if (step === last) throw new Error('killed');
      };
      await expect(moveAll(mover(index + 1, dying)), last).rejects.toThrow('killed');
    }
    await moveAll(mover(9));
    expect(await home.getJobState('x')).toBe('waiting');
    expect((await home.getJob('x'))?.stalledCounter).toBe(2);
  });

  test.each([
    [MAX_STALLS - 1, undefined],
    [MAX_STALLS, 'job stalled more than allowable limit'],
  ])('and that stalled %i times before, with 3 allowed, is failed: %s', async (stalls, failedReason) => {
    const { redis, moveAll, home } = await openKilled(stalls);
    await moveAll();
    const processor = vi.fn(() => Promise.resolve({}));
    const settings = { connection: redis, prefix: home.opts.prefix ?? '', concurrency: 1, lockMs: 10_000 };
    const options = workerOptions({ ...settings, maxStalls: MAX_STALLS });
    const worker = new NotificationWorker(QUEUE, processor, options, () => undefined);
    onTestFinished(() => worker.close());
    void worker.run();
    await waitFor(async () => expect((await home.getJob('x'))?.finishedOn).toBeDefined());
    expect((await home.getJob('x'))?.failedReason).toBe(failedReason);
    expect(processor).toHaveBeenCalledTimes(failedReason === undefined ? 1 : 0);
  });
});

test('a note that a killed process left does not swallow a later notification with the same id', async () => {
  const { redis, mover, moveAll, queueOf, formerQueueOf } = await openReshard();
  const [former, home] = [await formerQueueOf('teacher-42'), await queueOf('teacher-42')];
  await former.add('push', dataOf('x', 'teacher-42'), { jobId: 'x' });
  const dying = (step: string): void => {
    if (step === 'dropped') throw new Error('killed');
  };
  await expect(moveAll(mover(1, dying))).rejects.toThrow('killed');
  await moveAll(mover(2));
  // More than an hour later: it was sent, and both ids were forgotten.
  await home.remove('x');
  await redis.del(former.toKey('x'));
  await former.add('push', dataOf('x', 'teacher-42'), { jobId: 'x' });
  await moveAll(mover(3));
  expect(await jobsIn([home])).toEqual({ x: 1 });
});

test('nothing is taken out of a queue that is paused', async () => {
  const { mover, moveAll, queueOf, formerQueueOf } = await openReshard();
  const former = await formerQueueOf('teacher-42');
  await former.add('push', dataOf('x', 'teacher-42'), { jobId: 'x', priority: 10 });
  await former.pause();
  const own = mover();
  await moveAll(own);
  expect(await own.left()).toMatchObject({ jobs: 1, isPaused: true });
  expect(await jobsIn([await queueOf('teacher-42')])).toEqual({});
  await former.resume();
  await moveAll(own);
  expect(await own.left()).toMatchObject({ jobs: 0, isPaused: false });
  expect(await jobsIn([await queueOf('teacher-42')])).toEqual({ x: 1 });
});

test('a job whose move was begun by a killed sweep is there once after the next change of the number', async () => {
  const { redis, prefix, shards, layout, mover, moveAll, formerQueueOf } = await openReshard({ to: 2 });
  const steady = { ...layout, version: 4, phase: 'steady' } as const;
  await (await formerQueueOf('teacher-42')).add('push', dataOf('x', 'teacher-42'), { jobId: 'x', priority: 10 });
  const dying = (step: string): void => {
    if (step === 'put') throw new Error('killed');
  };
  await expect(moveAll(mover(1, dying))).rejects.toThrow('killed');
  const later = (fence: number, of: typeof layout) =>
    createMover({ connection: redis, layout: of, lease: { fence }, open: (each) => shards.at(each) });
  await moveAll(later(2, steady)); // as the command does before it writes the next layout
  const next = movingLayout(preparedLayout(steady, { prefix, shards: 3 }));
  await moveAll(later(3, next));
  const all = await Promise.all([...next.prefixes, ...steady.prefixes, prefix].map((of) => shards.at(of)));
  expect(await jobsIn(all.map(({ queue }) => queue))).toEqual({ x: 1 });
});

test('what a producer adds that saw one shard before there was a record is found and moved', async () => {
  const redis = connectRedis();
  const prefix = testPrefix();
  const early = new Queue(QUEUE, { connection: redis, prefix });
  onTestFinished(() => early.close());
  const layout = await openLayout(redis, { prefix, shards: 4 });
  expect(layout).toMatchObject({ version: 1, former: [[prefix]] });
  await early.add('push', dataOf('x', 'teacher-42'), { jobId: 'x', priority: 10 });
  const shards = createShards(redis, { prefix, shards: 4 });
  onTestFinished(() => shards.close());
  const own = createMover({ connection: redis, layout, lease: { fence: 1 }, open: (of) => shards.at(of) });
  while ((await own.moveSome()) > 0);
  expect(await jobsIn([(await shards.at(homeOf('teacher-42', layout))).queue])).toEqual({ x: 1 });
});
