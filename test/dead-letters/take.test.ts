import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { takeAll, walkChosen } from '../../src/dead-letters/take.ts';
import { DEAD_LETTERS, QUEUE } from '../../src/queue/names.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis } from '../support/redis.ts';
import { notification, openQueues, present } from '../queue/support.ts';
import { addDead, deadLetter, manyLetters } from './letters.ts';

async function open(count: number) {
  const { queue, deadQueue } = openQueues();
  await addDead(deadQueue, manyLetters(count));
  return { deadQueue, deadLetters: createDeadLetters({ queue, deadQueue }) };
}

const ids = (count: number) => Array.from({ length: count }, (_, n) => `n${n}`);

const all = () => ({ which: {}, buriedUntilMs: Date.now() + 60_000 });

test('ten are taken at once; if Redis is busy with them, it has as long for others before the next ten', async () => {
  const { deadLetters } = await open(30);
  let [busyMs, underWay, most] = [0, 0, 0];
  const began: number[] = [];
  const ended: number[] = [];
  // As Redis: one after the other.
  const take = async (): Promise<boolean> => {
    began.push(performance.now());
    underWay++;
    most = Math.max(most, underWay);
    await sleep((busyMs += 10));
    underWay--;
    if (underWay === 0) busyMs = 0;
    ended.push(performance.now());
    return true;
  };
  expect(await takeAll([deadLetters], { ...all(), take })).toMatchObject({ matched: 30, taken: 30 });
  expect(most).toBe(10);
  const pauses = [10, 20].map((next) => (began[next] ?? NaN) - (ended[next - 1] ?? NaN));
  expect(Math.min(...pauses)).toBeGreaterThan(80); // the first ended 90 ms before the last
});

test('a wait for the rate, or a long way to Redis, is no reason to pause', async () => {
  const { deadLetters } = await open(60);
  const began: number[] = [];
  const take = async (): Promise<boolean> => {
    began.push(performance.now());
    await sleep(100);
    return true;
  };
  await takeAll([deadLetters], { ...all(), take, perSecond: 50 });
  // The quickest of five: a busy machine makes any of them slow.
  const pauses = [10, 20, 30, 40, 50].map((next) => (began[next] ?? NaN) - (began[next - 1] ?? NaN));
  expect(Math.min(...pauses)).toBeLessThan(200); // with the wait for the rate it would be 280
});

test('after an error none of those is taken that wait for their turn, and it ends at once', async () => {
  const { deadLetters } = await open(10);
  const taken: string[] = [];
  const take = ({ id }: { readonly id: string }): Promise<boolean> => {
    taken.push(id);
    return id === 'n1' ? Promise.reject(new Error('Redis is away')) : Promise.resolve(true);
  };
  const began = performance.now();
  await expect(takeAll([deadLetters], { ...all(), take, perSecond: 0.5 })).rejects.toThrow('Redis is away');
  expect(performance.now() - began).toBeLessThan(15_000); // the turn of the tenth is after 18 s
  expect(taken).toEqual(['n0', 'n1']);
});

test('one that came too late does not hide those after it', async () => {
  const { deadQueue, deadLetters } = await open(120);
  const late = Date.now() + 3_600_000; // as after a failover to a Redis whose clock is behind
  await connectRedis().hset(deadQueue.toKey('n50'), 'timestamp', late);
  const seen: string[] = [];
  for await (const { id } of walkChosen([deadLetters], all())) seen.push(id);
  expect(seen).toEqual(ids(120).filter((id) => id !== 'n50'));
});

test('a filter by id finds one whose data has no id, by that of its job', async () => {
  const { deadQueue, deadLetters } = await open(2);
  await addDead(deadQueue, {
    'msg-1#r1': deadLetter('', { notification: { ...notification(), id: undefined }, generation: 1 }),
  });
  const chosen = { ...all(), which: { id: 'msg-1' } };
  expect(await takeAll([deadLetters], chosen)).toMatchObject({ seen: 3, matched: 1 });
});

test('one of the newest of 100,000 is taken out without a look through all, and so is one that is gone', async () => {
  const redis = connectRedis((await ownRedis()).url);
  const [queue, deadQueue] = [QUEUE, DEAD_LETTERS].map(
    (name) => new Queue(name, { connection: redis, prefix: '{own}' }),
  );
  onTestFinished(async () => {
    await Promise.all([queue?.close(), deadQueue?.close()]);
  });
  const deadLetters = createDeadLetters({ queue: present(queue), deadQueue: present(deadQueue) });
  const list = present(deadQueue).toKey('wait');
  const others = ids(100_000);
  for (let from = 0; from < others.length; from += 10_000)
    await redis.lpush(list, ...others.slice(from, from + 10_000));
  await addDead(present(deadQueue), Object.fromEntries(ids(20).map((id) => [`new-${id}`, deadLetter(id)])));
  const newest = await deadLetters.page(100_000, 20);
  const ghosts = ids(5).map((id) => `ghost-${id}`);
  await redis.lpush(list, ...ghosts);

  /** How long Redis looked for ids in lists since the last call, in microseconds. */
  const lookedFor = async (): Promise<number> => {
    const stats = await redis.info('commandstats');
    await redis.config('RESETSTAT');
    const each = stats.matchAll(/^cmdstat_(?:lrem|lpos):.*?,usec=(\d+)/gm);
    return [...each].reduce((sum, [, usec]) => sum + Number(usec), 0);
  };
  await lookedFor();
  await redis.lpos(list, 'in none of them');
  const through = await lookedFor();
  for await (const page of deadLetters.newest(0, ghosts.length)) expect(page).toEqual([]); // it reads them, and takes them out
  expect(await lookedFor()).toBeLessThan(through);
  for (const again of [false, true]) {
    for (const each of newest.slice(0, 10)) expect((await deadLetters.replay(each)) === undefined).toBe(again);
    for (const { id } of newest.slice(10)) expect((await deadLetters.discard(id)) === 'gone').toBe(again);
  }
  expect(await lookedFor()).toBeLessThan(2 * through);
  expect(await redis.llen(list)).toBe(100_000);
  expect(await redis.lindex(list, 0)).toBe('n99999');
});
