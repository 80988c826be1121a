import type { Queue } from 'bullmq';
import { expect, test } from 'vitest';
import { createDeadLetters, type DeadLetters } from '../../src/dead-letters/store.ts';
import { takeAll } from '../../src/dead-letters/take.ts';
import { connectRedis } from '../support/redis.ts';
import { deadLetter } from './letters.ts';
import { openQueues } from '../queue/support.ts';

const ids = (from: number, to: number) => Array.from({ length: to - from }, (_, n) => `n${from + n}`);

async function openWith(count: number): Promise<{ deadQueue: Queue; queue: Queue; deadLetters: DeadLetters }> {
  const { queue, deadQueue } = openQueues();
  await addDead(deadQueue, 0, count);
  return { queue, deadQueue, deadLetters: createDeadLetters({ queue, deadQueue }) };
}

async function addDead(deadQueue: Queue, from: number, to: number): Promise<void> {
  await deadQueue.addBulk(ids(from, to).map((id) => ({ name: 'push', data: deadLetter(id), opts: { jobId: id } })));
}

async function idsOf(pages: AsyncIterable<{ readonly id: string }[]>): Promise<string[]> {
  const seen: string[] = [];
  for await (const page of pages) seen.push(...page.map(({ id }) => id));
  return seen;
}

test('a walk sees all of them, oldest first', async () => {
  const { deadLetters } = await openWith(250);
  expect(await idsOf(deadLetters.walk())).toEqual(ids(0, 250));
});

test('a walk goes on where it was, whatever is taken away behind it or added before it', async () => {
  const { deadQueue, deadLetters } = await openWith(350);
  const seen: string[] = [];
  for await (const page of deadLetters.walk()) {
    seen.push(...page.map(({ id }) => id));
    if (seen.length === 100) for (const id of ids(0, 90)) await deadLetters.discard(id);
    if (seen.length === 200) for (const id of [...ids(92, 95), ...ids(150, 200)]) await deadLetters.discard(id);
    if (seen.length === 300) await addDead(deadQueue, 350, 360);
  }
  expect(seen).toEqual(ids(0, 360));
});

test('a walk begins with the oldest that is left where all that it saw is gone', async () => {
  const { deadLetters } = await openWith(450);
  const seen: string[] = [];
  for await (const page of deadLetters.walk()) {
    seen.push(...page.map(({ id }) => id));
    for (const { id } of page) await deadLetters.discard(id);
  }
  expect(seen).toEqual(ids(0, 450));
});

test('what is taken away by others ahead of a walk is not seen, and holds up nothing', async () => {
  const { deadLetters } = await openWith(300);
  const seen: string[] = [];
  for await (const page of deadLetters.walk()) {
    seen.push(...page.map(({ id }) => id));
    if (seen.length === 100) for (const id of ids(100, 250)) await deadLetters.discard(id);
  }
  expect(seen).toEqual([...ids(0, 100), ...ids(250, 300)]);
});

test('ids without a job, a page and more of them, are no dead letters, and are taken out', async () => {
  const { deadQueue, deadLetters } = await openWith(0);
  const redis = connectRedis();
  await redis.lpush(deadQueue.toKey('wait'), ...ids(1_000, 1_150));
  await addDead(deadQueue, 0, 20);
  expect(await deadLetters.count()).toBe(170);
  expect(await idsOf(deadLetters.walk())).toEqual(ids(0, 20));
  expect(await deadLetters.count()).toBe(20);
});

test('a filtered replay sees each once while the oldest go', async () => {
  const { deadLetters } = await openWith(300);
  const looked: string[] = [];
  const { seen, taken } = await takeAll(deadLetters, {
    filter: { recipientId: 'recipient-n299' },
    buriedUntilMs: Date.now() + 60_000,
    take: async (stored) => (await deadLetters.replay(stored)) !== undefined,
    onSeen: () => looked.push('one'),
  });
  expect({ seen, taken, looked: looked.length }).toEqual({ seen: 300, taken: 1, looked: 300 });
});

test('a removal and a replay of the same ones at the same time: each goes one way', async () => {
  const { queue, deadLetters } = await openWith(300);
  const buriedUntilMs = Date.now() + 60_000;
  const [replayed, discarded] = await Promise.all([
    takeAll(deadLetters, { buriedUntilMs, take: async (each) => (await deadLetters.replay(each)) !== undefined }),
    takeAll(deadLetters, { buriedUntilMs, take: async ({ id }) => (await deadLetters.discard(id)) === 'discarded' }),
  ]);
  expect(replayed.taken + discarded.taken).toBe(300);
  expect(await queue.getPrioritizedCount()).toBe(replayed.taken);
  expect(await deadLetters.count()).toBe(0);
});
