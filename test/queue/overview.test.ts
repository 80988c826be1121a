import { expect, it, onTestFinished } from 'vitest';
import { redelay } from '../../src/queue/redelay.ts';
import { CANCEL, FORMER_HIGH, PRIORITY } from '../../src/queue/names.ts';
import { readAges, readOverview } from '../../src/queue/overview.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { connectRedis } from '../support/redis.ts';
import { notification, openQueues } from './support.ts';

const MINUTE = 60_000;

function open() {
  const queues = openQueues();
  const redis = connectRedis();
  const { queue } = queues;
  const read = () => readOverview([queue], redis);
  const ages = () => readAges([queue], redis);
  /** A job that a worker has put back, due in so many milliseconds: less than 0 if its time has come. */
  const putBack = async (id: string, dueInMs: number, progress: object, fields: object = {}): Promise<void> => {
    const { timestamp = Date.now() - 10 * MINUTE, ...data } = fields as { timestamp?: number };
    const job = await queue.add('push', notification({ id, ...data }), { jobId: id, delay: MINUTE, timestamp });
    await job.updateProgress(progress);
    await redis.zadd(queue.toKey('delayed'), (Date.now() + dueInMs) * 0x1000, id);
  };
  return { ...queues, redis, read, ages, putBack };
}

it('what no worker has looked at: of our producer, of others, and what was added with a delay that is over', async () => {
  const { queue, prefix, read, ages } = open();
  const producer = createProducer({ connection: connectRedis(), prefix });
  onTestFinished(() => producer.close());
  await producer.enqueueMany([notification({ id: 'msg-1' }), notification({ id: 'msg-2', priority: 'high' })]);
  const timestamp = Date.now() - 5 * MINUTE;
  await queue.add('push', notification({ id: 'msg-3', recipientId: 'old' }), { jobId: 'msg-3', timestamp });
  const overview = await read();
  expect(overview.untaken).toEqual({ count: 3, oldestAt: timestamp });
  expect(overview.due.count).toBe(0);
  expect(overview.waiting).toMatchObject({ of: 0, oldestAt: timestamp });
  expect(overview.waiting.recipients).toMatchObject([
    { recipientId: 'old', waiting: 1, since: timestamp },
    { recipientId: 'teacher-42', waiting: 2 },
  ]);
  expect((await ages()).oldestWaitingMs).toBeGreaterThanOrEqual(5 * MINUTE);
  expect((await ages()).oldestDueMs).toBe(0);
});

it('what waits, by what it waits for; scheduled ones do not wait yet', async () => {
  const { putBack, queue, read } = open();
  await putBack('a', MINUTE, { rule: 'gap', requeues: 1 });
  await putBack('b', MINUTE, { rule: 'gap', requeues: 1 });
  await putBack('c', MINUTE, { rule: 'quiet', requeues: 1 }, { recipientId: 'asleep', timestamp: 1_000 });
  await putBack('d', MINUTE, { heldSince: 1 });
  await putBack('e', MINUTE, { tries: 1 });
  const sendAfter = Date.now() + 10 * MINUTE;
  const delayed = { delay: 10 * MINUTE, priority: PRIORITY.normal };
  await queue.add('push', notification({ id: 'f', sendAfter, recipientId: 'later' }), { jobId: 'f', ...delayed });
  await queue.add('push', notification({ id: 'g' }), { jobId: 'g', ...delayed });
  await queue.add(CANCEL, { id: 'x' }, { jobId: 'cancel', ...delayed });
  const { waiting, due } = await read();
  expect(waiting).toMatchObject({
    ...{ lookedAt: 7, of: 7, byRule: { gap: 2, quiet: 1, provider: 1, retry: 1, sendAfter: 1, delay: 1 } },
    oldestAt: 1_000,
  });
  expect(waiting.recipients.map(({ recipientId }) => recipientId)).toEqual(['asleep', 'teacher-42']);
  expect(due.count).toBe(0);
});

it('what was moved waits for the reason why it was moved', async () => {
  const { putBack, queue, read } = open();
  await putBack('a', MINUTE, { rule: 'gap', requeues: 1 });
  expect((await read()).waiting.byRule).toEqual({ gap: 1 });
  await redelay([queue], [{ jobId: 'a', at: Date.now() + 10 * MINUTE, why: { rule: 'block' } }]);
  expect((await read()).waiting.byRule).toEqual({ block: 1 });
  await queue.remove('a');
  await putBack('a', MINUTE, { rule: 'gap', requeues: 1 });
  expect((await read()).waiting.byRule).toEqual({ gap: 1 });
});

it('what is due and not taken: in the delayed set, and in the line where a worker has moved it', async () => {
  const { putBack, queue, redis, read, ages } = open();
  await putBack('a', -40_000, { rule: 'gap' });
  await putBack('b', -10_000, { rule: 'gap' });
  await putBack('c', MINUTE, { rule: 'gap' });
  const before = await read();
  expect(before.due.count).toBe(2);
  expect(Math.abs(before.now - (before.due.oldestAt ?? 0) - 40_000)).toBeLessThan(5_000);
  expect(before.waiting.byRule).toEqual({ gap: 1 });

  const dueAt = Date.now() - 60_000;
  await redis.hset(queue.toKey('a'), 'progress', JSON.stringify({ rule: 'gap', dueAt }));
  await redis.zrem(queue.toKey('delayed'), 'a');
  await redis.zadd(queue.toKey('prioritized'), PRIORITY.due * 0x100000000 + 1, 'a');
  const after = await read();
  expect(after.due).toEqual({ count: 2, oldestAt: dueAt });
  expect(after.untaken.count).toBe(0);
  expect((await ages()).oldestDueMs).toBeGreaterThanOrEqual(60_000);
  expect((await ages()).dueJobs).toBe(2);
});

it('counts what is due and what is new in each priority, also what clients in other languages and workers give', async () => {
  const { queue, redis, read, ages } = open();
  const add = (id: string, priority: number, agoMs: number, more: object = {}) =>
    queue.add('push', notification({ id, ...more }), { jobId: id, priority, timestamp: Date.now() - agoMs });
  for (const [id, priority, agoMs] of [
    ['due-high', PRIORITY.dueHigh, 3 * MINUTE],
    ['due', PRIORITY.due, 5 * MINUTE],
  ] as const) {
    const job = await add(id, priority, 10 * MINUTE);
    await job.updateProgress({ rule: 'gap', dueAt: Date.now() - agoMs });
  }
  await add('new-high', PRIORITY.high, 1_000);
  await add('raised', PRIORITY.high, 2_000);
  await add('former-high', FORMER_HIGH, 7 * MINUTE, { priority: 'high' });
  await add('new', PRIORITY.normal, 6 * MINUTE);
  const { now, due, untaken } = await read();
  expect([due.count, untaken.count]).toEqual([2, 4]);
  const ageMs = (at = NaN): number => Math.abs(now - at);
  expect(Math.abs(ageMs(due.oldestAt) - 5 * MINUTE)).toBeLessThan(5_000);
  expect(Math.abs(ageMs(untaken.oldestAt) - 7 * MINUTE)).toBeLessThan(5_000);
  expect((await ages()).dueJobs).toBe(6);
  await redis.zrem(queue.toKey('prioritized'), 'due');
  expect(Math.abs(ageMs((await read()).due.oldestAt) - 3 * MINUTE)).toBeLessThan(5_000);
});

it('only alerts count as waiting alerts', async () => {
  const { putBack, read } = open();
  await putBack('push', MINUTE, { rule: '3/1h' }, { pushType: 'background', timestamp: 1 });
  const { waiting } = await read();
  expect(waiting).toMatchObject({ byRule: { '3/1h': 1 }, recipients: [] });
  expect(waiting.oldestAt).toBeUndefined();
});

it('jobs that are no notifications do not stop it', async () => {
  const { redis, queue, read } = open();
  for (const [id, data] of [
    ['a', 'no json'],
    ['b', '[]'],
    ['c', `"${'x'.repeat(500_000)}"`],
    ['d', '{"recipientId":7}'],
  ] as const) {
    await redis.hset(queue.toKey(id), { name: 'push', timestamp: Date.now(), data, opts: 'x', progress: '7' });
    await redis.zadd(queue.toKey('delayed'), (Date.now() + MINUTE) * 0x1000, id);
  }
  await redis.zadd(queue.toKey('delayed'), (Date.now() + MINUTE) * 0x1000, 'gone');
  expect((await read()).waiting).toMatchObject({ lookedAt: 4, of: 4, byRule: { delay: 4 }, recipients: [] });
});

it('it looks at a bounded part, and says so', async () => {
  const { redis, queue, read } = open();
  const pipeline = redis.pipeline();
  for (let at = 0; at < 5_200; at++) {
    const id = `m${at}`;
    const data = JSON.stringify(notification({ id, recipientId: `r${at % 7}` }));
    pipeline.hset(queue.toKey(id), {
      name: 'push',
      timestamp: 1_000 + at,
      data,
      opts: '{}',
      progress: '{"rule":"gap"}',
    });
    pipeline.zadd(queue.toKey('delayed'), (Date.now() + MINUTE + at) * 0x1000, id);
  }
  await pipeline.exec();
  const { waiting } = await read();
  expect(waiting).toMatchObject({ lookedAt: 5_000, of: 5_200, byRule: { gap: 5_000 }, oldestAt: 1_000 });
  expect(waiting.recipients).toHaveLength(5);
  expect(waiting.recipients[0]).toMatchObject({ recipientId: 'r0', since: 1_000 });
});

it('shards are summed', async () => {
  const queues = [openQueues(), openQueues()];
  for (const { queue } of queues) await queue.add('push', notification(), { priority: PRIORITY.normal });
  await queues[1]?.queue.pause();
  const redis = connectRedis();
  await redis.xadd(`${queues[0]?.prefix ?? ''}:outcomes`, '*', 'id', 'a');
  const overview = await readOverview(
    queues.map(({ queue }) => queue),
    redis,
  );
  expect(overview).toMatchObject({ untaken: { count: 2 }, paused: true, outcomes: 1 });
});

it('counts what a newer version wrote: its data, its progress, and what no worker has looked at', async () => {
  const { putBack, queue, read, ages } = open();
  await putBack('a', MINUTE, { rule: 'gap', requeues: 1 });
  await putBack('b', MINUTE, { format: 2, anything: 'else' });
  await putBack('c', MINUTE, {}, { format: 2 });
  await queue.add('push', { format: 2, recipient: { id: 'teacher-42' } }, { jobId: 'd', priority: 10 });
  expect((await read()).waiting).toMatchObject({ byRule: { gap: 1, newer: 2 }, newer: 3 });

  // Its time has come again: since when is not in its progress, which a newer version wrote.
  const due = await queue.add('push', notification({ id: 'e' }), { jobId: 'e', priority: PRIORITY.due });
  await due.updateProgress({ format: 2, dueAt: Date.now() - 10 * MINUTE });
  expect((await read()).due).toEqual({ count: 1 });
  expect((await ages()).oldestDueMs).toBe(0);
});
