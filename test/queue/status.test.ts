import { expect, it, onTestFinished } from 'vitest';
import { duesOf } from '../../src/delivery/lines.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { InputError } from '../../src/domain/faults.ts';
import type { Moved } from '../../src/limiter/limiter.ts';
import { redelay } from '../../src/queue/redelay.ts';
import { createProducer, type ProducerOptions } from '../../src/producer/producer.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { connectRedis } from '../support/redis.ts';
import { consume, die, notification, openQueues, present, putBackAll } from './support.ts';
import { waitFor } from '../support/wait.ts';

function open(options: ProducerOptions = {}) {
  const queues = openQueues();
  const producer = createProducer({ connection: connectRedis(), prefix: queues.prefix, ...options });
  onTestFinished(() => producer.close());
  return { ...queues, producer };
}

/** Makes the job a dead letter, as a worker does. */
async function bury({ prefix, queue, deadQueue }: ReturnType<typeof open>, jobId: string): Promise<void> {
  const worker = consume(prefix, (job) => die(job));
  await waitFor(async () => expect(await queue.getFailedCount()).toBe(1));
  await worker.close();
  expect(await createDeadLetters({ queue, deadQueue }).bury(jobId)).toBe(true);
}

it('nothing is known of an id that was never enqueued', async () => {
  const { producer } = open();
  expect(await producer.status('msg-1')).toEqual({ state: 'unknown' });
});

it('one that no worker has looked at waits, and a worker may take it now', async () => {
  const { producer } = open();
  await producer.enqueue(notification({ id: 'msg-1' }));
  await producer.enqueue(notification({ id: '123' }));
  expect(await producer.status('msg-1')).toEqual({ state: 'waiting' });
  expect(await producer.status('123')).toEqual({ state: 'waiting' });
});

it('one that was added with a delay waits until then', async () => {
  const { producer, queue } = open();
  const { timestamp } = await queue.add('push', notification(), { jobId: 'msg-1', delay: 60_000 });
  expect(await producer.status('msg-1')).toEqual({ state: 'waiting', until: timestamp + 60_000 });
});

it.each([[{ rule: '10/1m', requeues: 1 }, { rule: '10/1m' }] as const, [{ tries: 1 }, {}] as const])(
  'one that was put back with %j waits until it is due, and says %j',
  async (progress, expected) => {
    const bench = open();
    await bench.producer.enqueue(notification({ id: 'msg-1' }));
    const [dueAt = 0] = await putBackAll(bench, 30_000, progress);
    const until: unknown = expect.closeTo(dueAt, -1); // the two clocks are compared in whole milliseconds
    expect(await bench.producer.status('msg-1')).toEqual({ state: 'waiting', until, ...expected });
  },
);

it('one that waits in line says how many are before it, and why; also after it was moved', async () => {
  const { producer, queue, prefix } = open();
  const policy = { rules: [], minGapMs: 60_000 };
  const limiter = createRedisLimiter({ redis: connectRedis(), prefix, policy });
  const ids = ['msg-0', 'msg-1', 'msg-2', 'msg-3'];
  for (const id of ids) await limiter.admit({ recipientId: 'teacher-42', id: `${id}/0` });
  await producer.enqueueMany(ids.slice(1).map((id) => notification({ id })));
  await putBackAll({ prefix, queue }, 60_000, { rule: 'gap', requeues: 1, asks: 0 });
  const waiting = { state: 'waiting', until: expect.any(Number) as number };
  expect(await producer.status('msg-1')).toEqual({ ...waiting, rule: 'gap', before: 0 });
  expect(await producer.status('msg-3')).toEqual({ ...waiting, rule: 'gap', before: 2 });

  const onMoved = async (moved: readonly Moved[]): Promise<void> => {
    await redelay([queue], duesOf(moved, 2_000));
  };
  const ruleUntil = Date.now() + 3_600_000;
  await limiter.block('teacher-42', { until: ruleUntil, reason: 'on leave' }, { onMoved });
  const blocked = await producer.status('msg-3');
  expect(blocked).toEqual({ ...waiting, rule: 'block', ruleUntil, before: 2 });
  expect((blocked as { until: number }).until - (ruleUntil + 120_000 - 25)).toBeLessThan(50); // BullMQ counts from its own now
  await limiter.limit('teacher-42', { rules: [{ max: 1, perMs: 7_200_000 }], minGapMs: 0 }, { onMoved });
  expect(await producer.status('msg-3')).toEqual({ ...waiting, rule: '1/2h', before: 2 });
  await limiter.unlimit('teacher-42', { onMoved });
  await limiter.unblock('teacher-42', { onMoved });
  await limiter.cancel({ recipientId: 'teacher-42', id: 'msg-1/0' });
  expect(await producer.status('msg-3')).toEqual({ ...waiting, rule: 'gap', before: 1 });
});

it('one that its category holds back says its place in that line', async () => {
  const { producer, queue, prefix } = open();
  const policies = { policy: { rules: [], minGapMs: 1_000 }, categories: { news: { rules: [], minGapMs: 3_600_000 } } };
  const limiter = createRedisLimiter({ redis: connectRedis(), prefix, ...policies });
  for (const id of ['a', 'b', 'msg-1'])
    await limiter.admit({ recipientId: 'teacher-42', id: `${id}/0`, category: 'news' });
  for (const id of ['c', 'd']) await limiter.admit({ recipientId: 'teacher-42', id: `${id}/0` });
  await producer.enqueue(notification({ id: 'msg-1', category: 'news' }));
  await putBackAll({ prefix, queue }, 60_000, { rule: 'news:gap', requeues: 1, ruleUntil: undefined });
  expect(await producer.status('msg-1')).toMatchObject({ rule: 'news:gap', before: 1 });
});

it('one that waits has a status also if the Redis of the limiter does not answer', async () => {
  const { producer, queue, prefix } = open({ limiterRedisUrl: 'redis://127.0.0.1:1', timeoutMs: 500 });
  await producer.enqueue(notification({ id: 'msg-1' }));
  await putBackAll({ prefix, queue }, 60_000, { rule: 'quiet', ruleUntil: 1_784_012_400_000, requeues: 1 });
  const until = expect.any(Number) as number;
  const status = { state: 'waiting', until, rule: 'quiet', ruleUntil: 1_784_012_400_000 };
  expect(await producer.status('msg-1')).toEqual(status);
});

it('one that a worker has is being sent, and has ended when the worker says so', async () => {
  const { producer, queue, prefix } = open();
  const { promise, resolve } = Promise.withResolvers<unknown>();
  consume(prefix, () => promise);
  await producer.enqueue(notification({ id: 'msg-1' }));
  await waitFor(async () => expect(await producer.status('msg-1')).toEqual({ state: 'sending' }));
  const job = present(await queue.getJob('msg-1'));
  resolve({ outcome: 'delivered', sentAt: job.timestamp + 1_234, devices: { 'apns#0': 'delivered' } });
  await waitFor(async () => expect((await producer.status('msg-1')).state).toBe('ended'));
  expect(await producer.status('msg-1')).toEqual({
    ...{ state: 'ended', outcome: 'delivered', waitMs: 1_234, devices: { 'apns#0': 'delivered' } },
    ...{ sentAt: job.timestamp + 1_234, endedAt: (await queue.getJob('msg-1'))?.finishedOn },
  });
});

it('one that may have been shown before it ended says so', async () => {
  const { producer, prefix } = open();
  consume(prefix, () => Promise.resolve({ outcome: 'dropped', maybeShown: true, devices: {} }));
  await producer.enqueue(notification({ id: 'msg-1' }));
  await waitFor(async () =>
    expect(await producer.status('msg-1')).toMatchObject({ state: 'ended', outcome: 'dropped', maybeShown: true }),
  );
});

it('one that a worker of an older version ended has fewer facts', async () => {
  const { producer, prefix } = open();
  consume(prefix, () => Promise.resolve({ outcome: 'expired' }));
  await producer.enqueue(notification({ id: 'msg-1' }));
  await waitFor(async () =>
    expect(await producer.status('msg-1')).toEqual({
      ...{ state: 'ended', outcome: 'expired', devices: {} },
      ...{ endedAt: expect.any(Number) as number, waitMs: expect.any(Number) as number },
    }),
  );
});

it('a dead letter says why; what a replay and a second death made of it is found under the same id', async () => {
  const bench = open();
  const { producer, queue, deadQueue } = bench;
  await producer.enqueue(notification({ id: 'msg-1' }));
  await bury(bench, 'msg-1');
  const dead = { state: 'dead-lettered', reason: 'rejected', message: 'rejected by the provider' };
  expect(await producer.status('msg-1')).toEqual({ ...dead, deadAt: expect.any(Number) as number, generation: 0 });

  await connectRedis().del(queue.toKey('msg-1')); // an hour has passed
  const deadLetters = createDeadLetters({ queue, deadQueue });
  expect(await deadLetters.replay(present(await deadLetters.find('msg-1')))).toBe('msg-1#r1');
  expect(await producer.status('msg-1')).toEqual({ state: 'waiting' });

  await bury(bench, 'msg-1#r1');
  expect(await producer.status('msg-1')).toMatchObject({ ...dead, generation: 1 });
  await connectRedis().del(queue.toKey('msg-1#r1'));
  expect(await producer.status('msg-1')).toMatchObject({ ...dead, generation: 1 });

  expect(await deadLetters.discard('msg-1#r1')).toBe('discarded');
  expect(await producer.status('msg-1')).toEqual({ state: 'unknown' });
});

it('one whose id an earlier version took, and this one refuses, is still found', async () => {
  const { producer, queue } = open();
  await queue.add('push', notification({ id: '..' }), { jobId: '..', delay: 60_000 });
  expect(await producer.status('..')).toMatchObject({ state: 'waiting' });
  expect(await producer.cancel({ id: '..' })).toEqual({ canceled: 1, tooLate: 0 });
});

it.each(['', 'a b', 'x'.repeat(129), 7, undefined])('the id %j is refused, with what an id is', async (id) => {
  const { producer } = open();
  const asked = producer.status(id as string);
  await expect(asked).rejects.toBeInstanceOf(InputError);
  await expect(asked).rejects.toThrow(/^unusable id: id: expected 1 to 128 of A-Z a-z 0-9 \. _ ~ -, found /);
});
