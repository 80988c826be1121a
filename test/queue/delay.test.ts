import { DelayedError, type Job } from 'bullmq';
import { expect, test, vi } from 'vitest';
import { redelay } from '../../src/queue/job-lock.ts';
import { PRIORITY } from '../../src/queue/names.ts';
import { consume, notification, openQueues, present, putBack } from './support.ts';

const HOUR_MS = 3_600_000;

test('a requeued job comes back with its progress, not too early, and spends no attempt', async () => {
  const { prefix, queue } = openQueues();
  await queue.add('push', notification({ id: 'one' }), { jobId: 'one', priority: 10 });
  const passes: { at: number; attempts: number; progress: unknown }[] = [];
  let dueAt = 0;
  consume(prefix, async (job, token) => {
    passes.push({ at: Date.now(), attempts: job.attemptsMade, progress: job.progress });
    if (passes.length > 1) return;
    dueAt = await putBack(queue, job, token, 150.2, { requeues: 1 });
    throw new DelayedError();
  });
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), { timeout: 10_000 });
  expect(passes).toHaveLength(2);
  expect(present(passes[1]).at).toBeGreaterThanOrEqual(dueAt);
  expect(dueAt - present(passes[0]).at).toBeGreaterThanOrEqual(151);
  expect(passes[1]).toMatchObject({ attempts: 0, progress: { requeues: 1 } });
});

test('a job that is due goes ahead of 6,000 that wait', async () => {
  const { prefix, queue } = openQueues();
  const jobs = Array.from({ length: 6_000 }, (_, n) => ({
    name: 'push',
    data: {},
    opts: { jobId: `w${n}`, priority: 5 },
  }));
  await queue.add('push', {}, { jobId: 'first', priority: 10 });
  const order: string[] = [];
  consume(prefix, async (job, token) => {
    order.push(present(job.id));
    if (order.length === 1) {
      await queue.addBulk(jobs);
      await putBack(queue, job, token, 100);
      throw new DelayedError();
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  });
  await vi.waitFor(() => expect(order.filter((id) => id === 'first')).toHaveLength(2), { timeout: 20_000 });
  // 20 ms each: it is due after five or so, and would be the 6,001st by its own priority.
  expect(order.lastIndexOf('first')).toBeLessThan(200);
});

test('of a job that is another worker’s by now, nothing changes', async () => {
  const { prefix, queue } = openQueues();
  const added = await queue.add('push', {}, { jobId: 'lost', priority: 10 });
  let held: Job | undefined;
  consume(prefix, (job) => {
    held = job;
    return new Promise((resolve) => setTimeout(resolve, 500));
  });
  await vi.waitFor(() => expect(held).toBeDefined());
  await expect(putBack(queue, present(held), 'not its token', 1_000)).rejects.toThrow(/lock/i);
  expect(await queue.getDelayedCount()).toBe(0);
  expect(present(await queue.getJob(present(added.id))).priority).toBe(10);
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
});

test('the rejection does not fail the job that it could not delay', async () => {
  const { prefix, queue } = openQueues();
  await queue.add('push', {}, { jobId: 'twice', priority: 10, attempts: 1 });
  let passes = 0;
  consume(prefix, async (job, token) => {
    if (++passes > 1) return;
    await putBack(queue, job, token, 300);
    await putBack(queue, job, token, 300); // as ioredis does when a reply is lost: it sends the script again
  });
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1), { timeout: 10_000 });
  expect(passes).toBe(2);
  expect(await queue.getFailedCount()).toBe(0);
  expect(PRIORITY.due).toBeLessThan(PRIORITY.high);
});

test('jobs that were delayed for an hour come back at the instants that they are given, in that order', async () => {
  const { prefix, queue } = openQueues();
  const opts = (jobId: string) => ({ jobId, delay: HOUR_MS, priority: PRIORITY.due });
  for (const jobId of ['one', 'two', 'later']) await queue.add('push', {}, opts(jobId));
  const taken: { id: string; at: number }[] = [];
  consume(prefix, (job) => {
    taken.push({ id: present(job.id), at: Date.now() });
    return Promise.resolve();
  });
  const now = Date.now();
  const due = [
    { jobId: 'two', at: now + 200 },
    { jobId: 'one', at: now + 400 },
  ];
  expect(await redelay(queue, due)).toBe(2);
  await vi.waitFor(() => expect(taken.map(({ id }) => id)).toEqual(['two', 'one']), { timeout: 10_000 });
  for (const [index, { at }] of due.entries()) expect(present(taken[index]).at).toBeGreaterThanOrEqual(at);
  expect(await queue.getDelayedCount()).toBe(1);
});

test('a job that is not delayed, or not there, is left alone', async () => {
  const { queue } = openQueues();
  await queue.add('push', {}, { jobId: 'waiting', priority: 10 });
  const due = ['waiting', 'of-nobody'].map((jobId) => ({ jobId, at: Date.now() + HOUR_MS }));
  expect(await redelay(queue, due)).toBe(0);
  expect(await queue.getJobCounts('prioritized', 'delayed')).toMatchObject({ prioritized: 1, delayed: 0 });
});

test('thousands are moved', async () => {
  const { queue } = openQueues();
  const ids = Array.from({ length: 3_000 }, (_, n) => `w${n}`);
  await queue.addBulk(ids.map((jobId) => ({ name: 'push', data: {}, opts: { jobId, delay: HOUR_MS } })));
  const at = Date.now() + 2 * HOUR_MS;
  expect(
    await redelay(
      queue,
      ids.map((jobId) => ({ jobId, at })),
    ),
  ).toBe(3_000);
  expect(present(await queue.getJob('w2999')).delay).toBeGreaterThan(1.9 * HOUR_MS);
});
