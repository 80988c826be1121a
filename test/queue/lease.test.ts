import type { Job } from 'bullmq';
import { expect, test } from 'vitest';
import { createLease } from '../../src/queue/lease.ts';
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
  const leaseSince = (agoMs: number) => {
    job.processedOn = Date.now() - agoMs;
    return createLease({ queue, job, token: 'us', lockMs: LOCK_MS });
  };
  const progressOf = async () => (present(await queue.getJob('one')) as Job).progress;
  return { redis, lockKey, leaseSince, progressOf };
}

test('a young lease is believed without asking Redis', async () => {
  const { redis, lockKey, leaseSince } = await openJob();
  const lease = leaseSince(LOCK_MS / 4);
  await redis.del(lockKey);
  expect(await lease.holds()).toBe(true);
  expect(lease.until - performance.now()).toBeGreaterThan(0);
  expect(lease.until - performance.now()).toBeLessThanOrEqual(LOCK_MS / 4);
});

test('one that may have run out is renewed, and sure again', async () => {
  const { redis, lockKey, leaseSince } = await openJob();
  await redis.pexpire(lockKey, 2_000);
  const lease = leaseSince(0.8 * LOCK_MS);
  expect(lease.until).toBeLessThan(performance.now());
  expect(await lease.holds()).toBe(true);
  expect(await redis.pttl(lockKey)).toBeGreaterThan(0.8 * LOCK_MS);
  expect(lease.until - performance.now()).toBeGreaterThan(0.3 * LOCK_MS);
});

test('one that has run out, or is somebody else’s, does not hold', async () => {
  const { redis, lockKey, leaseSince } = await openJob('them');
  expect(await leaseSince(LOCK_MS).holds()).toBe(false);
  expect(await redis.get(lockKey)).toBe('them');
  await redis.del(lockKey);
  expect(await leaseSince(LOCK_MS).holds()).toBe(false);
});

test('a clock that was set back is not believed', async () => {
  const { leaseSince } = await openJob('them');
  expect(await leaseSince(-60_000).holds()).toBe(false);
});

test('does not hold where Redis gives no answer', async () => {
  const { queue } = openQueues();
  const extendLock: Job['extendLock'] = () => Promise.reject(new Error('Connection is closed.'));
  const lease = createLease({
    queue: queue,
    job: { id: 'one', processedOn: 0, extendLock },
    token: 'us',
    lockMs: 1,
  });
  expect(await lease.holds()).toBe(false);
});

test('progress is kept by the owner alone', async () => {
  const { redis, lockKey, leaseSince, progressOf } = await openJob();
  const lease = leaseSince(0);
  expect(await lease.save({ tries: 1 })).toBe(true);
  expect(await progressOf()).toEqual({ tries: 1 });
  await redis.set(lockKey, 'them');
  expect(await lease.save({ tries: 2 })).toBe(false);
  await redis.del(lockKey);
  expect(await lease.save({ tries: 3 })).toBe(false);
  expect(await progressOf()).toEqual({ tries: 1 });
});
