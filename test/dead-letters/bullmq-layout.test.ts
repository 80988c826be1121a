import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { createMoves } from '../../src/dead-letters/store.ts';
import { connectRedis } from '../support/redis.ts';
import { openQueues, snapshot } from '../queue/support.ts';

// bury.lua and replay.lua write BullMQ's keys. Where one of these fails after an update of BullMQ, compare
// addStandardJob, addPrioritizedJob and removeJobKeys with the scripts, mend those, and only then raise the pin.

test('BullMQ is pinned to the version that the scripts were written for', () => {
  const { version } = createRequire(import.meta.url)('bullmq/package.json') as { version: string };
  const own = JSON.parse(readFileSync('package.json', 'utf8')) as { dependencies: Record<string, string> };
  expect(own.dependencies['bullmq']).toBe('6.7.0');
  expect(version).toBe('6.7.0');
});

test('bury writes what BullMQ’s add would', async () => {
  const redis = connectRedis();
  const [ours, theirs] = [openQueues(), openQueues()];
  await ours.queue.add('push', {}, { jobId: 'x' });
  await fail(redis, ours.queue, 'x');
  const deadLetter = { id: 'x', data: { reason: 'stalled' } };
  expect(await createMoves(ours.queue, ours.deadQueue).bury('x', deadLetter)).toBe('moved');
  await theirs.deadQueue.add('push', { reason: 'stalled' }, { jobId: 'x' });
  expect(await snapshot(redis, ours.deadQueue)).toEqual(await snapshot(redis, theirs.deadQueue));
});

test('replay writes what BullMQ’s add would', async () => {
  const redis = connectRedis();
  const [ours, theirs] = [openQueues(), openQueues()];
  const options = { removeOnFail: false, priority: 5 };
  await ours.queue.add('push', {}, { jobId: 'before', ...options });
  await theirs.queue.add('push', {}, { jobId: 'before', ...options });
  await ours.deadQueue.add('push', {}, { jobId: 'x' });
  const job = { id: 'y', data: { a: 1 }, options: { attempts: 0, removeOnFail: false }, priority: 5 };
  expect(await createMoves(ours.queue, ours.deadQueue).replay('x', job)).toBe('moved');
  await theirs.queue.add('push', { a: 1 }, { jobId: 'y', ...options });
  expect(await snapshot(redis, ours.queue)).toEqual(await snapshot(redis, theirs.queue));
});

test('both take away what BullMQ’s remove would, but for the id that stays taken', async () => {
  const redis = connectRedis();
  const { queue, deadQueue, prefix } = openQueues();
  const moves = createMoves(queue, deadQueue);
  await queue.add('push', {}, { jobId: 'x' });
  await queue.addJobLog('x', 'a line');
  await fail(redis, queue, 'x');
  await moves.bury('x', { id: 'x', data: {} });
  expect((await redis.keys(`${prefix}:notifications:x*`)).sort()).toEqual([`${prefix}:notifications:x`]);
  await deadQueue.addJobLog('x', 'a line');
  await moves.replay('x', { id: 'x#r1', data: {}, options: {}, priority: 10 });
  expect(await redis.keys(`${prefix}:dead-letters:x*`)).toEqual([]);
});

test('nothing is written where there is nothing to move, or the id is taken', async () => {
  const redis = connectRedis();
  const { queue, deadQueue } = openQueues();
  const moves = createMoves(queue, deadQueue);
  await queue.add('push', {}, { jobId: 'waits' });
  await deadQueue.add('push', {}, { jobId: 'taken' });
  await queue.add('push', {}, { jobId: 'dead' });
  await fail(redis, queue, 'dead');
  const before = [await snapshot(redis, queue), await snapshot(redis, deadQueue)];
  expect(await moves.bury('waits', { id: 'new', data: {} })).toBe('gone');
  expect(await moves.bury('dead', { id: 'taken', data: {} })).toBe('taken');
  expect(await moves.replay('none', { id: 'new', data: {}, options: {}, priority: 10 })).toBe('gone');
  expect(await moves.replay('taken', { id: 'waits', data: {}, options: {}, priority: 10 })).toBe('taken');
  expect([await snapshot(redis, queue), await snapshot(redis, deadQueue)]).toEqual(before);
});

test('a replay that says how far it came writes that as BullMQ does', async () => {
  const redis = connectRedis();
  const [ours, theirs] = [openQueues(), openQueues()];
  await ours.deadQueue.add('push', {}, { jobId: 'x' });
  const progress = { devices: { 'apns#0': 'delivered' } };
  const job = { id: 'y', data: {}, options: { attempts: 0 }, priority: 5, progress };
  expect(await createMoves(ours.queue, ours.deadQueue).replay('x', job)).toBe('moved');
  const added = await theirs.queue.add('push', {}, { jobId: 'y', priority: 5 });
  await added.updateProgress(progress);
  expect(await redis.hget(ours.queue.toKey('y'), 'progress')).toBe(
    await redis.hget(theirs.queue.toKey('y'), 'progress'),
  );
});

test('discard takes away what BullMQ’s remove would', async () => {
  const redis = connectRedis();
  const [ours, theirs] = [openQueues(), openQueues()];
  for (const { deadQueue } of [ours, theirs]) {
    await deadQueue.add('push', {}, { jobId: 'stays' });
    await deadQueue.add('push', {}, { jobId: 'x' });
    await deadQueue.addJobLog('x', 'a line');
  }
  const moves = createMoves(ours.queue, ours.deadQueue);
  expect(await moves.discard('x', 2)).toBe('kept');
  expect(await moves.discard('none', 0)).toBe('gone');
  expect(await moves.discard('x', 1)).toBe('discarded');
  await theirs.deadQueue.remove('x');
  expect(await snapshot(redis, ours.deadQueue)).toEqual(await snapshot(redis, theirs.deadQueue));
});

/** Puts a waiting job where BullMQ has the failed ones. */
async function fail(redis: Redis, queue: Queue, jobId: string): Promise<void> {
  await redis.lrem(queue.toKey('wait'), 1, jobId);
  await redis.zadd(queue.toKey('failed'), Date.now(), jobId);
}
