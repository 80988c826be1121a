import { Worker } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { assertBullMq, dueAtOfScore, lockKeyOf, onRedisTime } from '../../src/queue/bullmq-internals.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { consume, openQueues, present } from './support.ts';

test('the pinned BullMQ has all that is used, and one that lacks something is refused by name', () => {
  const worker = new Worker(QUEUE, () => Promise.resolve(), {
    connection: connectRedis(),
    prefix: testPrefix(),
    autorun: false,
  });
  onTestFinished(() => worker.close());
  expect(() => assertBullMq(worker)).not.toThrow();
  Object.assign(worker.getBackend(), { waitForJob: undefined });
  Object.assign(worker, { extendJobLocks: undefined });
  expect(() => assertBullMq(worker)).toThrow(
    /^expected BullMQ 6\.7\.0, found \d+\.\d+\.\d+: which lacks extendJobLocks, waitForJob$/,
  );
});

test('the due time and the lock of a job are where BullMQ keeps them', async () => {
  const { prefix, queue } = openQueues();
  const redis = connectRedis();
  const { timestamp } = await queue.add('push', {}, { jobId: 'later', delay: 60_000 });
  expect(dueAtOfScore(Number(await redis.zscore(queue.toKey('delayed'), 'later')))).toBe(timestamp + 60_000);

  let [given, found]: [string?, (string | null)?] = [];
  consume(prefix, async (_job, token) => {
    [given, found] = [token, await redis.get(lockKeyOf(queue, 'now'))];
  });
  await queue.add('push', {}, { jobId: 'now' });
  await expect.poll(() => found, { timeout: 10_000 }).toBeTypeOf('string');
  expect(found).toBe(given);
});

test('a command whose time is not where it is expected is not sent', async () => {
  const { queue } = openQueues();
  const backend = onRedisTime(() => 1)(queue.name, queue.opts);
  const client = await backend.client;
  expect(() => {
    backend.execCommand(client, 'moveToActive', ['a key', 'no time']);
  }).toThrow(/expected BullMQ 6\.7\.0.*moveToActive has its time elsewhere/);
  await backend.close();
});

test.for([-60_000, 60_000])(
  'due times are given on this machine’s clock, where Redis’s is %i ms from it',
  async (aheadMs) => {
    const { queue } = openQueues();
    const backend = onRedisTime(() => aheadMs)(queue.name, queue.opts, { withBlockingConnection: true });
    onTestFinished(() => backend.close());
    await queue.add('push', {}, { delay: 120_000 });
    const near = (dueAt: unknown) =>
      expect(Math.abs(Number(dueAt) + aheadMs - Date.now() - 120_000)).toBeLessThan(10_000);
    const found = present(await backend.waitForJob(1));
    near(found.score);
    const [job, , , dueAt] = (await backend.moveToActive('token')) as unknown[];
    expect(job).toBeNull();
    near(dueAt);
  },
);
