import type { Job } from 'bullmq';
import { expect, test, vi } from 'vitest';
import { createJobLock } from '../../src/queue/job-lock.ts';
import { connectRedis } from '../support/redis.ts';
import { notification, openQueues, present } from './support.ts';

const LOCK_MS = 10_000;

/** A job whose lock `owner` has, as after BullMQ's moveToActive. */
async function openJob(owner = 'us') {
  const { queue } = openQueues();
  const redis = connectRedis();
  const job = await queue.add('push', notification(), { jobId: 'one', priority: 10 });
  const lockKey = `${queue.toKey('one')}:lock`;
  await redis.set(lockKey, owner, 'PX', LOCK_MS);
  const lockSince = (agoMs: number) => {
    job.processedOn = Date.now() - agoMs;
    return createJobLock(job, 'us', { queue, lockMs: LOCK_MS });
  };
  const progressOf = async () => (present(await queue.getJob('one')) as Job).progress;
  return { redis, lockKey, lockSince, progressOf };
}

test('a young lock is believed without asking Redis', async () => {
  const { redis, lockKey, lockSince } = await openJob();
  const lock = lockSince(LOCK_MS / 4);
  await redis.del(lockKey);
  expect(await lock.isValid()).toBe(true);
  expect(lock.until - performance.now()).toBeGreaterThan(0);
  expect(lock.until - performance.now()).toBeLessThanOrEqual(LOCK_MS / 4);
});

test('one that may have run out is renewed, and sure again', async () => {
  const { redis, lockKey, lockSince } = await openJob();
  await redis.pexpire(lockKey, 2_000);
  const lock = lockSince(0.8 * LOCK_MS);
  expect(lock.until).toBeLessThan(performance.now());
  expect(await lock.isValid()).toBe(true);
  expect(await redis.pttl(lockKey)).toBeGreaterThan(0.8 * LOCK_MS);
  expect(lock.until - performance.now()).toBeGreaterThan(0.3 * LOCK_MS);
});

test('one that has run out, or is another worker’s, is not valid', async () => {
  const { redis, lockKey, lockSince } = await openJob('them');
  expect(await lockSince(LOCK_MS).isValid()).toBe(false);
  expect(await redis.get(lockKey)).toBe('them');
  await redis.del(lockKey);
  expect(await lockSince(LOCK_MS).isValid()).toBe(false);
});

test('a clock that was set back is not believed', async () => {
  const { lockSince } = await openJob('them');
  expect(await lockSince(-60_000).isValid()).toBe(false);
});

test('one is not valid where Redis gives no answer', async () => {
  const { queue } = openQueues();
  vi.spyOn(queue.getBackend(), 'extendLock').mockRejectedValue(new Error('Connection is closed.'));
  const lock = createJobLock({ id: 'one', processedOn: 0 }, 'us', { queue, lockMs: 1 });
  expect(await lock.isValid()).toBe(false);
});

test('progress is kept by the owner alone', async () => {
  const { redis, lockKey, lockSince, progressOf } = await openJob();
  const lock = lockSince(0);
  expect(await lock.save({ tries: 1 })).toBe(true);
  expect(await progressOf()).toEqual({ tries: 1 });
  await redis.set(lockKey, 'them');
  expect(await lock.save({ tries: 2 })).toBe(false);
  await redis.del(lockKey);
  expect(await lock.save({ tries: 3 })).toBe(false);
  expect(await progressOf()).toEqual({ tries: 1 });
});
