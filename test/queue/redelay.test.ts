import { DelayedError, type Job, type Queue } from 'bullmq';
import { expect, onTestFinished, test, vi } from 'vitest';
import { dueAtOfScore } from '../../src/queue/bullmq-internals.ts';
import { redelay } from '../../src/queue/redelay.ts';
import { waitFor } from '../support/wait.ts';
import { consume, notification, openQueues, present, putBack } from './support.ts';

const HOUR_MS = 3_600_000;

/** A queue with a job `one` that a worker has until `go` is called with what it is to do with it. */
async function openInHand() {
  const { prefix, queue } = openQueues();
  const taken = Promise.withResolvers<undefined>();
  const going = Promise.withResolvers<(job: Job, token?: string) => Promise<unknown>>();
  consume(prefix, async (job, token) => {
    taken.resolve(undefined);
    return (await going.promise)(job, token);
  });
  await queue.add('push', notification(), { jobId: 'one' });
  await taken.promise;
  const putBackFor = (delayMs: number, progress: object = { rule: 'quiet' }) =>
    going.resolve(async (job, token) => {
      await putBack(queue, job, token, delayMs, progress);
      throw new DelayedError();
    });
  return { queue, putBackFor, end: () => going.resolve(() => Promise.resolve('done')) };
}

const dueAtOf = async (queue: Queue, id: string) => {
  const client = await queue.getBackend().client;
  return dueAtOfScore(Number(present(await client.zscore(queue.toKey('delayed'), id))));
};

test('a job that a worker puts back after the change, until the slot of before, is due as it was changed', async () => {
  const { queue, putBackFor } = await openInHand();
  const at = Date.now() + HOUR_MS;
  const { moved, followed } = await redelay([queue], [{ jobId: 'one', at, why: { rule: 'gap' } }]);
  expect(moved).toBe(0);
  putBackFor(2 * HOUR_MS);
  await followed;
  expect(await dueAtOf(queue, 'one')).toBe(at);
  const { delayed } = await queue.getJobCounts('delayed');
  expect(delayed).toBe(1);
});

test('one that is put back until an earlier instant keeps that: it asks for its slot then', async () => {
  const { queue, putBackFor } = await openInHand();
  const { followed } = await redelay([queue], [{ jobId: 'one', at: Date.now() + 2 * HOUR_MS }]);
  const before = Date.now();
  putBackFor(HOUR_MS);
  await followed;
  expect(await dueAtOf(queue, 'one')).toBeGreaterThanOrEqual(before + HOUR_MS);
  expect(await dueAtOf(queue, 'one')).toBeLessThan(before + HOUR_MS + 60_000);
});

test.each([{ tries: 1 }, { rule: 'sendAfter' }, { rule: 'credentials' }])(
  'one that is put back with %j waits for no slot, and keeps its instant',
  async (progress) => {
    const { queue, putBackFor } = await openInHand();
    const { followed } = await redelay([queue], [{ jobId: 'one', at: 0 }]);
    const before = Date.now();
    putBackFor(HOUR_MS, progress);
    await followed;
    expect(await dueAtOf(queue, 'one')).toBeGreaterThanOrEqual(before + HOUR_MS);
  },
);

test('one that was moved to later is not followed: it asks for its slot when it is put back', async () => {
  const { queue, putBackFor } = await openInHand();
  const { followed } = await redelay([queue], [{ jobId: 'one', at: Date.now() + HOUR_MS, isLater: true }]);
  await followed; // although a worker has it still
  putBackFor(2 * HOUR_MS);
});

test('an error of a look while others are still changed reaches who waits for it, and ends no process', async () => {
  const { queue, end } = await openInHand();
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  vi.spyOn(await queue.getBackend().client, 'get').mockRejectedValue(new Error('Connection is closed.'));
  const dues = Array.from({ length: 2_000 }, (_, n) => ({ jobId: n === 0 ? 'one' : `other-${n}`, at: 0 }));
  const { followed } = await redelay([queue], dues);
  await expect(followed).rejects.toThrow('Connection is closed.');
  expect(unhandled).toEqual([]);
  end();
});

test('one that ends is followed no longer, nor is one that waits or is not there', async () => {
  const { queue, end } = await openInHand();
  const at = Date.now();
  const { followed } = await redelay([queue], [{ jobId: 'one', at }]);
  end();
  await followed;
  await waitFor(async () => expect((await queue.getJob('one'))?.returnvalue).toBe('done'));
  await queue.pause();
  await queue.add('push', notification(), { jobId: 'waiting' });
  const others = ['waiting', 'of-nobody'].map((jobId) => ({ jobId, at }));
  const redelayed = await redelay([queue], others);
  await redelayed.followed;
  expect(redelayed.moved).toBe(0);
});
