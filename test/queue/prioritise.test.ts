import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { FORMER_HIGH, PRIORITY } from '../../src/queue/names.ts';
import { createNewcomerShare, createPrioritiser } from '../../src/queue/prioritise.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { consume, openQueues, present } from './support.ts';

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
  await waitFor(async () => expect(await redis.exists(queue.toKey('lock:prioritising'))).toBe(0));
});

test('of several workers one does it', async () => {
  const { queue, openOne, add, redis } = open();
  await add(300);
  await redis.set(queue.toKey('lock:prioritising'), '1');
  openOne().look();
  await sleep(150);
  expect(await queue.getPrioritizedCount()).toBe(0);
  await redis.del(queue.toKey('lock:prioritising')); // the other one was killed, and its lock has run out
  openOne().look();
  await waitFor(async () => expect(await queue.getPrioritizedCount()).toBe(250));
});

test('a job that is gone meanwhile does not keep the others from it, and few are left as they are', async () => {
  const { queue, openOne, add, redis } = open();
  await add(60);
  await redis.unlink(queue.toKey('job-55')); // its id is still in the list
  openOne().look();
  await waitFor(async () => expect(await queue.getPrioritizedCount()).toBe(9));
  await waitFor(async () => expect(await redis.exists(queue.toKey('lock:prioritising'))).toBe(0)); // it has ended
  expect(await queue.getRanges(['wait'], 0, -1, true)).toHaveLength(51);
});

describe('a share for newcomers', () => {
  function openShare() {
    const bench = open();
    const openWorker = () => {
      const share = createNewcomerShare(bench);
      onTestFinished(() => share.close());
      /** So many jobs are taken, each so long after it was due. */
      return (count: number, lateMs: number) => {
        for (let n = 0; n < count; n++) share.taken({ progress: { dueAt: Date.now() - lateMs } });
      };
    };
    const raised = async () => {
      const jobs = await bench.queue.getPrioritized();
      return jobs.filter(({ priority }) => priority === PRIORITY.high).map(({ id }) => id);
    };
    const addNew = (ids: readonly string[], priority: number) =>
      bench.queue.addBulk(ids.map((jobId) => ({ name: 'push', data: {}, opts: { jobId, priority } })));
    return { ...bench, openWorker, raised, addNew };
  }
  const ids = Array.from({ length: 30 }, (_, n) => `new-${n}`);

  test('for each four jobs that are taken too late, the oldest new job goes before what is due', async () => {
    const { queue, redis, prefix, openWorker, addNew, raised } = openShare();
    let now = performance.now();
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
    onTestFinished(() => clock.mockRestore());
    const take = openWorker();
    await addNew(['due'], PRIORITY.due);
    await addNew(ids, PRIORITY.normal);
    await addNew(['with 5'], FORMER_HIGH);
    take(1, 10_000); // the first look begins at once, and finds as many as were taken until then
    await waitFor(async () => expect(await raised()).toEqual(['with 5']));
    await waitFor(async () => expect(await redis.exists(queue.toKey('lock:raising'))).toBe(0));
    take(40, 10_000); // too soon for the next look
    await sleep(400);
    expect(await raised()).toHaveLength(1);
    now += 1_000;
    take(1, 10_000);
    await waitFor(async () => expect(await raised()).toHaveLength(12));
    expect(await raised()).toEqual(['with 5', ...ids.slice(0, 11)]);

    await queue.add('push', {}, { jobId: 'high', priority: PRIORITY.high });
    const order: string[] = [];
    consume(prefix, (job) => Promise.resolve(void order.push(present(job.id))));
    await waitFor(() => expect(order).toHaveLength(33));
    expect(order).toEqual(['with 5', ...ids.slice(0, 11), 'high', 'due', ...ids.slice(11)]);
  });

  test('there is none, and no command, while what is due is taken in time', async () => {
    const { queue, redis, openWorker, addNew, raised } = openShare();
    await addNew(ids, PRIORITY.normal);
    openWorker()(1_000, 100);
    await sleep(100);
    expect(await raised()).toEqual([]);
    expect(await redis.exists(queue.toKey('lock:raising'))).toBe(0);
  });

  test('of several workers one raises at a time, and the new jobs keep their order', async () => {
    const { openWorker, addNew, raised } = openShare();
    const workers = Array.from({ length: 4 }, openWorker);
    await addNew(ids, PRIORITY.normal);
    for (let tries = 0; (await raised()).length < ids.length && tries < 500; tries++) {
      for (const take of workers) take(1, 10_000);
      await sleep(20);
    }
    expect(await raised()).toEqual(ids);
  });

  test('what was taken or removed meanwhile does not keep others from it', async () => {
    const { queue, redis, openWorker, addNew, raised } = openShare();
    await addNew(ids, PRIORITY.normal);
    await redis.unlink(queue.toKey('new-0')); // its id is still in the set
    const take = openWorker();
    for (let tries = 0; (await raised()).length < 2 && tries < 500; tries++) {
      take(8, 10_000);
      await sleep(20);
    }
    expect((await raised()).slice(0, 2)).toEqual(['new-1', 'new-2']);
  });
});
