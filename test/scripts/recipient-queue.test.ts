import { Worker } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { main } from '../../scripts/recipient.ts';
import type { Inspection } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/queue/producer.ts';
import { runMain } from '../support/command.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

const recipientId = 'teacher-42';

/** A queue without workers, and `recipient show` on it. */
function openBench() {
  const prefix = testPrefix();
  const producer = createProducer({ connection: connectRedis(), prefix });
  onTestFinished(() => producer.close());
  const show = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await runMain(main, ['show', ...args], {
      REDIS_URL: testRedisUrl(),
      QUEUE_PREFIX: prefix,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    return stdout;
  };
  return { prefix, producer, show, json: async <T>() => JSON.parse(await show(recipientId, '--json')) as T };
}

test('show tells what no worker has taken yet', async () => {
  const { producer, show, json } = openBench();
  for (const id of ['msg-1', '2', 'msg-3']) await producer.enqueue(makeNotification({ id, recipientId }));
  await producer.enqueue(makeNotification({ id: 'msg-4', recipientId: 'teacher-7' }));
  const { notTaken } = await json<{ notTaken: { found: { id: string }[] } }>();
  expect(notTaken).toMatchObject({ lookedAt: 4, of: 4 });
  expect(notTaken.found.map(({ id }) => id)).toEqual(['msg-1', '2', 'msg-3']);
  const text = await show(recipientId);
  expect(text).not.toContain('Nothing is stored');
  expect(text).toContain('\nwaiting    3 not taken yet\n');
  expect(text).toMatch(/\nnow .* not taken yet .* 2\n/);
  expect(await show('teacher-8')).toContain('Nothing is stored');
});

test('show says of an alert that hangs at its provider that it is being sent', async () => {
  const { prefix, producer, show, json } = openBench();
  const policy = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 0 };
  const limiter = createRedisLimiter({ redis: connectRedis(), prefix, policy });
  const answer = Promise.withResolvers<object>();
  const worker = new Worker(QUEUE, () => answer.promise, { connection: connectRedis(), prefix, drainDelay: 1 });
  onTestFinished(async () => {
    answer.resolve({ outcome: 'delivered' });
    await worker.close();
  });
  for (const id of ['msg-0/0', 'msg-1/0']) await limiter.admit({ recipientId, id });
  await producer.enqueue(makeNotification({ id: 'msg-1', recipientId }));
  const shown = await waitFor(async () => {
    const found = await json<Inspection & { sending: { id: string; at: number }[] }>();
    expect(found.sending).toHaveLength(1);
    return found;
  });
  expect(shown.sending).toMatchObject([{ id: 'msg-1', at: shown.sent[1]?.at }]);
  const text = await show(recipientId);
  expect(text).toMatch(/\nsent {7}1 within 1m, the last .* ago\n/);
  expect(text).toMatch(/\nsending {4}1, for .*\n/);
  expect(text).toMatch(/\nnow .* being sent .* msg-1\n$/);
});
