import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import type { Layout } from '../../src/queue/shards/layout.ts';
import { moveKeys } from '../../src/queue/names.ts';
import { createMover } from '../../src/queue/shards/reshard.ts';
import { connectRedis } from '../support/redis.ts';
import { openQueues, snapshot } from './support.ts';

// reshard-put.lua writes BullMQ's keys. Where one of these fails after an update of BullMQ, compare addStandardJob,
// addPrioritizedJob, addDelayedJob and moveToDelayed with the script, mend it, and only then raise the pin.

type Shard = ReturnType<typeof openQueues>;

/** Three queues: what is in the first is moved to the second, and should look like the third. */
function open() {
  const redis = connectRedis();
  const [from, to, theirs] = [openQueues(), openQueues(), openQueues()];
  const layout: Layout = { version: 3, phase: 'move', prefixes: [to.prefix], former: [[from.prefix]] };
  const all = [from, to];
  const openShard = (prefix: string): Promise<Shard> =>
    Promise.resolve(all.find((each) => each.prefix === prefix) ?? theirs);
  const mover = createMover({ connection: redis, layout, lease: { fence: 1 }, open: openShard });
  const move = async (): Promise<void> => {
    while ((await mover.moveSome()) > 0);
  };
  return { redis, from, to, theirs, mover, move };
}

const DATA = { recipientId: 'teacher-42', alert: { title: 'Łódź 🎒' } };

test.each([
  ['without a priority', {}],
  ['with a priority', { priority: 5 }],
  ['delayed', { delay: 60_000 }],
  ['delayed, with a priority', { delay: 60_000, priority: 10 }],
])('a job %s is put as BullMQ’s add would', async (_, options) => {
  const { redis, from, to, theirs, move } = open();
  const timestamp = Date.now();
  for (const { queue } of [to, theirs]) await queue.add('push', DATA, { jobId: 'before', timestamp, ...options });
  for (const { queue } of [from, theirs]) {
    for (const jobId of ['x', 'y'])
      await queue.add('push', DATA, { jobId, timestamp, removeOnFail: false, ...options });
  }
  await move();
  expect(await snapshot(redis, to.queue)).toEqual(await snapshot(redis, theirs.queue));
});

test('a job keeps all of its fields, and its due time to the millisecond', async () => {
  const { redis, from, to, move } = open();
  const job = await from.queue.add('push', DATA, { jobId: 'x', delay: 86_400_000, priority: 10 });
  await job.updateProgress({ asks: 3, devices: { 'apns#0': 'delivered' } });
  await redis.hset(from.queue.toKey('x'), { 'pushpacer:why': '{"at":1}', priority: '1', stc: '2', ats: '4' });
  const [fields, score] = [await redis.hgetall(from.queue.toKey('x')), await scoreIn(redis, from.queue, 'x')];
  await move();
  expect(await redis.hgetall(to.queue.toKey('x'))).toEqual(fields);
  expect(Math.floor((await scoreIn(redis, to.queue, 'x')) / 0x1000)).toBe(Math.floor(score / 0x1000));
});

test('a job that has ended keeps its end, and BullMQ finds it', async () => {
  const { redis, from, to, move } = open();
  const added = await from.queue.add('push', DATA, { jobId: 'x' });
  await redis.lrem(from.queue.toKey('wait'), 1, 'x');
  await redis.zadd(from.queue.toKey('completed'), 1_784_000_000_123, 'x');
  await redis.hset(from.queue.toKey(added.id ?? ''), {
    finishedOn: '1784000000123',
    returnvalue: '{"outcome":"delivered"}',
  });
  await move();
  expect(await to.queue.getJobState('x')).toBe('completed');
  expect(await to.queue.getJob('x')).toMatchObject({
    finishedOn: 1_784_000_000_123,
    returnvalue: { outcome: 'delivered' },
  });
  expect(await to.queue.getJobCounts()).toMatchObject({ completed: 1, waiting: 0 });
});

test('a dead letter is put as BullMQ’s add would, the oldest at the tail', async () => {
  const { redis, from, to, theirs, move } = open();
  for (const id of ['old', 'middle']) {
    for (const { deadQueue } of [from, theirs]) await deadQueue.add('push', { notification: DATA }, { jobId: id });
  }
  for (const { deadQueue } of [to, theirs]) await deadQueue.add('push', { notification: DATA }, { jobId: 'new' });
  await move();
  expect(await redis.lrange(to.deadQueue.toKey('wait'), 0, -1)).toEqual(['new', 'middle', 'old']);
  const { events, ...ours } = await snapshot(redis, to.deadQueue);
  const { events: theirEvents, ...others } = await snapshot(redis, theirs.deadQueue);
  expect(ours).toEqual(others);
  expect(byId(events as string[][])).toEqual(byId(theirEvents as string[][]));
});

test('the former queue keeps nothing that grows, but marks of the ids, which BullMQ takes for taken', async () => {
  const { redis, from, to, mover, move } = open();
  await from.queue.add('push', DATA, { jobId: 'x' });
  await from.queue.addJobLog('x', 'a line');
  await from.queue.add('push', DATA, { jobId: 'y', delay: 60_000 });
  await from.queue.add('push', DATA, { jobId: 'p', priority: 10 });
  await from.deadQueue.add('push', { notification: DATA }, { jobId: 'z' });
  await redis.sadd(from.queue.toKey('stalled'), 'x'); // as the stalled check of a worker that was killed
  await move();
  await mover.tidy();
  expect(await mover.left()).toEqual({ jobs: 0, active: 0, stories: 0, isPaused: false });
  const keys = (await redis.keys(`${from.prefix}*`)).filter((key) => !/:(meta|id|mover)$/.test(key));
  expect(keys.toSorted()).toEqual(['p', 'x', 'y'].map((id) => from.queue.toKey(id)));
  for (const key of keys) {
    expect(await redis.hgetall(key)).toEqual({ 'pushpacer:moved': '1' });
    expect(await redis.ttl(key)).toBeGreaterThan(3_500);
  }
  await from.queue.add('push', DATA, { jobId: 'x' });
  expect(await from.queue.getJobCounts()).toMatchObject({ waiting: 0 });
  for (const key of [moveKeys(from.prefix).moving, moveKeys(to.prefix).moved]) expect(await redis.exists(key)).toBe(0);
});

test('into a paused queue jobs are put without waking its workers', async () => {
  const { redis, from, to, theirs, move } = open();
  for (const { queue } of [to, theirs]) await queue.pause();
  const timestamp = Date.now();
  for (const { queue } of [from, theirs]) await queue.add('push', DATA, { jobId: 'x', priority: 5, timestamp });
  await move();
  expect(await redis.exists(to.queue.toKey('marker'))).toBe(0);
  expect(await redis.exists(theirs.queue.toKey('marker'))).toBe(0);
});

async function scoreIn(redis: Redis, queue: Queue, jobId: string): Promise<number> {
  return Number(await redis.zscore(queue.toKey('delayed'), jobId));
}

function byId(events: readonly string[][]): string[] {
  return events.map((fields) => fields.join()).toSorted();
}
