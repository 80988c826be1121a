import { expect, test, vi } from 'vitest';
import { PRIORITY } from '../../src/queue/names.ts';
import { redelay } from '../../src/queue/redelay.ts';
import { consume, openQueues, present } from './support.ts';

const HOUR_MS = 3_600_000;

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
