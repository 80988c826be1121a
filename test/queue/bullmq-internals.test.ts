import { Job, Worker } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { assertBullMq, dueAtOfScore, lockKeyOf, onRedisTime } from '../../src/queue/bullmq-internals.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { connectRedis } from '../support/redis.ts';
import { consume, openQueues, present } from './support.ts';

function openWorker(kind: typeof Worker = Worker) {
  const { prefix, queue } = openQueues();
  const worker = new kind(QUEUE, () => Promise.resolve(), { connection: connectRedis(), prefix, autorun: false });
  onTestFinished(() => worker.close());
  return { queue, worker };
}

/** Takes members away until the test ends: a BullMQ that does not have them. */
function without(prototype: object, ...names: string[]): void {
  for (const name of names) {
    const member = present(Object.getOwnPropertyDescriptor(prototype, name));
    Reflect.deleteProperty(prototype, name);
    onTestFinished(() => void Object.defineProperty(prototype, name, member));
  }
}

test('the pinned BullMQ has all that is used', async () => {
  const { queue, worker } = openWorker();
  await worker.waitUntilReady();
  expect(() => {
    assertBullMq(queue, worker);
  }).not.toThrow();
});

test('one that lacks something is refused by name', async () => {
  const { queue, worker } = openWorker();
  await worker.waitUntilReady();
  without(Worker.prototype, 'handleFailed', 'getBlockTimeout');
  expect(() => {
    assertBullMq(queue, worker);
  }).toThrow(
    /^expected BullMQ 6\.7\.0, found \d+\.\d+\.\d+, which lacks Worker\.handleFailed, Worker\.getBlockTimeout$/,
  );
});

test('so is one whose jobs and workers keep their parts elsewhere', async () => {
  const { queue, worker } = openWorker();
  await worker.waitUntilReady();
  const moved = Object.assign(Object.create(worker) as Worker, { lockManager: undefined });
  const { createBackend } = Job.prototype as unknown as Record<string, unknown>;
  Object.assign(Job.prototype, { createBackend: () => undefined });
  onTestFinished(() => void Object.assign(Job.prototype, { createBackend }));
  expect(() => {
    assertBullMq(queue, moved);
  }).toThrow(/lacks Worker\.lockManager\.trackJob, Job\.backend\.moveToDelayed$/);
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
