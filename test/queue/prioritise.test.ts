import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createPrioritiser } from '../../src/queue/prioritise.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { openQueues } from './support.ts';

function open() {
  const { prefix, queue } = openQueues();
  const redis = connectRedis();
  const openOne = () => {
    const one = createPrioritiser({ queue, redis });
    onTestFinished(() => one.close());
    return one;
  };
  const add = (count: number, opts: { priority?: number } = {}) =>
    queue.addBulk(
      Array.from({ length: count }, (_, n) => ({ name: 'push', data: {}, opts: { ...opts, jobId: `job-${n}` } })),
    );
  return { prefix, queue, redis, openOne, add };
}

test('jobs without a priority get the normal one, in their order, but for those that workers are about to take', async () => {
  const { queue, openOne, add, redis } = open();
  await add(1_000);
  openOne().look();
  await waitFor(async () => expect(await queue.getPrioritizedCount()).toBe(950));
  expect(await queue.getRanges(['wait'], 0, -1, true)).toEqual(Array.from({ length: 50 }, (_, n) => `job-${n}`));
  const jobs = await queue.getPrioritized();
  expect(jobs.map(({ id }) => id)).toEqual(Array.from({ length: 950 }, (_, n) => `job-${n + 50}`));
  expect(new Set(jobs.map(({ priority }) => priority))).toEqual(new Set([10]));
  await waitFor(async () => expect(await redis.exists(queue.toKey('prioritising'))).toBe(0));
});

test('of several workers one does it', async () => {
  const { queue, openOne, add, redis } = open();
  await add(300);
  await redis.set(queue.toKey('prioritising'), '1', 'PX', 300);
  openOne().look();
  await sleep(150);
  expect(await queue.getPrioritizedCount()).toBe(0);
  await sleep(200); // the other one was killed
  openOne().look();
  await waitFor(async () => expect(await queue.getPrioritizedCount()).toBe(250));
});

test('a job that is gone meanwhile does not keep the others from it, and few are left as they are', async () => {
  const { queue, openOne, add, redis } = open();
  await add(60);
  await redis.unlink(queue.toKey('job-55')); // its id is still in the list
  openOne().look();
  await waitFor(async () => expect(await queue.getPrioritizedCount()).toBe(9));
  await waitFor(async () => expect(await redis.exists(queue.toKey('prioritising'))).toBe(0)); // it has ended
  expect(await queue.getRanges(['wait'], 0, -1, true)).toHaveLength(51);
});
