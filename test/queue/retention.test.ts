import { expect, test, vi } from 'vitest';
import { isUnprioritised, protect } from '../../src/queue/names.ts';
import { consume, die, notification, openQueues, present } from './support.ts';

const FOREIGN = { removeOnFail: true, removeOnComplete: true, attempts: 5, lifo: true };

test('a job is protected from its producer’s removeOnFail', async () => {
  const { prefix, queue } = openQueues();
  consume(prefix, (job) => die(job)).on('active', protect);
  for (const removeOnFail of [true, 0, { count: 0 }, { age: 1, count: 1 }, 1])
    await queue.add('push', {}, { ...FOREIGN, removeOnFail });
  await vi.waitFor(async () => expect(await queue.getFailedCount()).toBe(5));
});

test('also where it stalled too often, and never reaches the processor again', async () => {
  const { prefix, queue } = openQueues();
  await queue.add('push', notification({ id: 's' }), { jobId: 's', ...FOREIGN });
  const processor = vi.fn(() => new Promise<void>(() => undefined));
  const killed = consume(prefix, processor, { lockDuration: 200, skipLockRenewal: true, skipStalledCheck: true });
  await vi.waitFor(() => expect(processor).toHaveBeenCalledOnce());
  await killed.close(true);

  const other = vi.fn(() => Promise.resolve());
  consume(prefix, other, { stalledInterval: 100, maxStalledCount: 0 }).on('active', protect);
  await vi.waitFor(async () => expect(await queue.getFailedCount()).toBe(1), { timeout: 10_000 });
  expect(other).not.toHaveBeenCalled();
  expect(present(await queue.getJob('s')).failedReason).toBe('job stalled more than allowable limit');
});

test('a job stays for an hour where its producer wanted it removed at once', async () => {
  const { prefix, queue } = openQueues();
  consume(prefix, () => Promise.resolve()).on('active', protect);
  for (const removeOnComplete of [true, 0, { count: 0 }]) await queue.add('push', {}, { ...FOREIGN, removeOnComplete });
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(3));
});

test('what its producer wanted kept longer is left to the producer', () => {
  for (const removeOnComplete of [false, 10, { age: 86_400 }]) {
    const job = { opts: { removeOnComplete } };
    protect(job);
    expect(job.opts.removeOnComplete).toEqual(removeOnComplete);
  }
});

test('a job without a priority is told', async () => {
  const { queue } = openQueues();
  expect(isUnprioritised(await queue.add('push', {}))).toBe(true);
  expect(isUnprioritised(await queue.add('push', {}, { priority: 0 }))).toBe(true);
  expect(isUnprioritised(await queue.add('push', {}, { priority: 10 }))).toBe(false);
});
