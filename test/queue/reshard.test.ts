import type { Job, Queue } from 'bullmq';
import { expect, onTestFinished, test, vi } from 'vitest';
import { dueAtOfScore, scoreOfDue } from '../../src/queue/bullmq-internals.ts';
import { homeOf } from '../../src/queue/shards/layout.ts';
import { deadIdsOf, historyKeys, jobIdOf, moveKeys, QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { redelay } from '../../src/queue/redelay.ts';
import { LeaseLostError } from '../../src/queue/shards/reshard.ts';
import { connectRedis, testTarget } from '../support/redis.ts';
import { dataOf, jobsIn, openReshard } from './moving.ts';
import { notification, present } from './support.ts';

const STATES = [{}, { priority: 10 }, { delay: 3_600_000 }];

test.each([
  [1, 4],
  [4, 1],
  [3, 2],
])('from %i to %i, whichever step a process is killed at, each job is there once', async (from, to) => {
  const { redis, shards, layout, former, mover, moveAll, queueOf, formerQueueOf } = await openReshard({ from, to });
  const ids = Array.from({ length: 250 }, (_, n) => `n${n}`);
  for (const [n, id] of ids.entries()) {
    const recipientId = `teacher-${n % 40}`;
    const options = { jobId: jobIdOf(id), ...STATES[n % 3] };
    await (await formerQueueOf(recipientId)).add('push', dataOf(id, recipientId), options);
  }
  let left = 0;
  const dying = (): void => {
    if (left-- <= 0) throw new Error('killed');
  };
  // Each process goes one step further than the one before.
  for (let fence = 1; fence <= 12; fence++) {
    left = fence % 7;
    await moveAll(mover(fence, dying)).catch((error: unknown) => expect(error).toMatchObject({ message: 'killed' }));
  }
  const last = mover(20);
  await moveAll(last);
  expect(await last.left()).toEqual({ jobs: 0, active: 0, stories: 0, isPaused: false });
  await last.tidy();
  const queues = await Promise.all(layout.prefixes.map(async (of) => (await shards.at(of)).queue));
  expect(await jobsIn(queues)).toEqual(Object.fromEntries(ids.map((id) => [id, 1])));
  for (const [n, id] of ids.entries()) {
    const state = ['waiting', 'prioritized', 'delayed'][n % 3];
    expect(await (await queueOf(`teacher-${n % 40}`)).getJobState(id), id).toBe(state);
  }
  for (const of of [...former, ...layout.prefixes]) {
    expect(await redis.exists(moveKeys(of).moving, moveKeys(of).moved)).toBe(0);
  }
});

test.each([
  [1, 4],
  [3, 4],
  [4, 1],
])('an id that a retract took stays taken in every queue, from %i to %i', async (from, to) => {
  const { prefix, layout, write, moveAll } = await openReshard({ from, to });
  await write({ ...layout, phase: 'steady', prefixes: present(layout.former[0]), former: [] });
  const before = createProducer({ ...testTarget(), prefix });
  onTestFinished(() => before.close());
  expect(await before.retract({ id: 'x' })).toMatchObject({ unknown: 1 });
  await write(layout);
  await moveAll();
  const after = createProducer({ ...testTarget(), prefix });
  onTestFinished(() => after.close());
  const recipients = new Map(Array.from({ length: 40 }, (_, n) => [homeOf(`teacher-${n}`, layout), `teacher-${n}`]));
  expect(recipients.size).toBe(to);
  for (const recipientId of recipients.values()) {
    expect(await after.enqueue(notification({ id: 'x', recipientId })), recipientId).toMatchObject({ added: false });
  }
});

test('a job whose slot moves while it is between two queues is due at the new instant', async () => {
  const { layout, mover, moveAll, queueOf, formerQueueOf, shards, former: formers } = await openReshard();
  const former = await formerQueueOf('teacher-42');
  const hourMs = 3_600_000;
  await former.add('push', dataOf('x', 'teacher-42'), { jobId: 'x', delay: hourMs });
  await present((await former.getJob('x')) as Job | undefined).updateProgress({ rule: 'quiet' });
  const homes = await Promise.all([homeOf('teacher-42', layout), ...formers].map((of) => shards.at(of)));
  const at = Date.now() + 60_000;
  let followed: Promise<void> | undefined;
  const slowly = async (step: string): Promise<void> => {
    if (step !== 'taken' || followed !== undefined) return;
    const queues = homes.map(({ queue }) => queue);
    const clients = await Promise.all(queues.map((queue) => queue.getBackend().client));
    const looks = clients.map((each) => vi.spyOn(each, 'zscore'));
    ({ followed } = await redelay(queues, [{ jobId: 'x', at }]));
    await vi.waitFor(() => expect(looks.every(({ mock }) => mock.settledResults.length > 0)).toBe(true)); // it finds the job in neither
  };
  await moveAll(mover(1, slowly));
  await followed;
  const home = await queueOf('teacher-42');
  const client = await home.getBackend().client;
  expect(dueAtOfScore(Number(await client.zscore(home.toKey('delayed'), 'x')))).toBe(at);
});

test('what has ended and is gone before a killed process is followed by another one is not put again', async () => {
  const { shards, layout, mover, moveAll, queueOf, formerQueueOf } = await openReshard();
  await (await formerQueueOf('teacher-42')).add('push', dataOf('x', 'teacher-42'), { jobId: 'x' });
  const dying = (step: string): void => {
    if (step === 'put') throw new Error('killed');
  };
  await expect(moveAll(mover(1, dying))).rejects.toThrow('killed');
  const home = await queueOf('teacher-42');
  expect(await home.getJobState('x')).toBe('waiting');
  await home.remove('x'); // it was delivered, and its id was forgotten
  await moveAll(mover(2));
  const queues = await Promise.all(layout.prefixes.map(async (of) => (await shards.at(of)).queue));
  expect(await jobsIn(queues)).toEqual({});
});

test('a process that stood still is refused at every step, once another one goes on', async () => {
  const { redis, mover, moveAll, queueOf, formerQueueOf } = await openReshard();
  let fence = 0;
  for (const step of ['taken', 'put', 'dropped'] as const) {
    await (await formerQueueOf('teacher-42')).add('push', dataOf(step, 'teacher-42'), { jobId: step });
    fence += 2;
    let others = 0;
    const standing = mover(fence, async (at) => {
      if (at !== step || others++ > 0) return;
      await moveAll(mover(fence + 1));
      await (await queueOf('teacher-42')).remove(step); // sent, and forgotten
    });
    await moveAll(standing).catch((error: unknown) => expect(error).toBeInstanceOf(LeaseLostError));
    expect(await (await queueOf('teacher-42')).getJobState(step), step).toBe('unknown');
  }
  const events = (await formerQueueOf('teacher-42')).toKey('events');
  await expect(mover(fence).tidy()).rejects.toThrow(LeaseLostError);
  expect(await redis.exists(events)).toBe(1);
  await mover(fence + 1).tidy();
  expect(await redis.exists(events)).toBe(0);
});

test('of two notifications with one id, the one that has progress or has ended stays', async () => {
  const { redis, mover, queueOf, formerQueueOf } = await openReshard();
  const [former, home] = [await formerQueueOf('teacher-42'), await queueOf('teacher-42')];
  const progress = { devices: { 'apns#0': 'delivered' } };
  const add = async (queue: Queue, id: string, has: 'nothing' | 'progress' | 'end'): Promise<void> => {
    const job = await queue.add('push', dataOf(id, 'teacher-42', { of: queue === home ? 'home' : 'former' }), {
      ...{ jobId: id, priority: 10 },
    });
    if (has === 'progress') await job.updateProgress(progress);
    if (has !== 'end') return;
    await redis.zrem(queue.toKey('prioritized'), id);
    await redis.zadd(queue.toKey('completed'), Date.now(), id);
    await redis.hset(queue.toKey(id), { finishedOn: Date.now(), returnvalue: '{"outcome":"delivered"}' });
  };
  const cases = [
    ['nothing', 'nothing', 'home'],
    ['progress', 'nothing', 'former'],
    ['nothing', 'progress', 'home'],
    ['progress', 'progress', 'home'],
    ['end', 'nothing', 'former'],
    ['nothing', 'end', 'home'],
    ['progress', 'end', 'home'],
  ] as const;
  for (const [index, [inFormer, atHome]] of cases.entries()) {
    await add(former, `n${index}`, inFormer);
    await add(home, `n${index}`, atHome);
  }
  const own = mover();
  while ((await own.moveSome()) > 0);
  for (const [index, [inFormer, , stays]] of cases.entries()) {
    const job = present(await home.getJob(`n${index}`));
    expect((job.data as { of: string }).of, `${index}`).toBe(stays);
    expect(job.finishedOn !== undefined).toBe((stays === 'former' ? inFormer : cases[index]?.[1]) === 'end');
  }
  expect(own.counts).toMatchObject({ moved: 2, dropped: 5 });
  expect(await jobsIn([home])).toEqual(Object.fromEntries(cases.map((_, index) => [`n${index}`, 1])));
});

test('dead letters go to the shard of their recipient; one with a taken id gets another', async () => {
  const { redis, shards, layout, former, moveAll } = await openReshard();
  const { queue, deadQueue } = await shards.at(former[0] ?? '');
  const letterOf = (id: string) => ({ reason: 'rejected', notification: dataOf(id, 'teacher-42') });
  await deadQueue.add('push', letterOf('x'), { jobId: 'x' });
  // The id of a dead letter stays taken for an hour.
  await redis.hset(queue.toKey('x'), { name: 'push', data: '{}' });
  await redis.expire(queue.toKey('x'), 1_000);
  const home = await shards.at(homeOf('teacher-42', layout));
  await home.deadQueue.add('push', letterOf('x'), { jobId: 'x' });
  await moveAll();
  expect(await redis.lrange(home.deadQueue.toKey('wait'), 0, -1)).toEqual(['x', 'x#d1']);
  expect(await redis.ttl(home.queue.toKey('x'))).toBeGreaterThan(900);
  expect(await redis.exists(deadQueue.toKey('x'), deadQueue.toKey('wait'))).toBe(0);
});

test('a dead letter that had got another id gets one that is looked for', async () => {
  const { shards, layout, former, moveAll } = await openReshard();
  const { deadQueue } = await shards.at(former[0] ?? '');
  const home = await shards.at(homeOf('teacher-42', layout));
  const data = { reason: 'rejected', notification: dataOf('x', 'teacher-42') };
  await deadQueue.add('push', data, { jobId: 'x#d1' });
  for (const jobId of ['x', 'x#d1']) await home.deadQueue.add('push', data, { jobId });
  await moveAll();
  const ids = (await home.deadQueue.getWaiting()).map(({ id }) => id);
  expect(ids.toSorted()).toEqual(['x', 'x#d1', 'x#d2']);
  expect(deadIdsOf('x')).toEqual(expect.arrayContaining(ids));
});

test('stories go with their recipients', async () => {
  const { redis, layout, former, moveAll } = await openReshard();
  const from = historyKeys(former[0] ?? '');
  for (let n = 0; n < 120; n++) {
    await redis.hset(from.stories, `n${n}`, JSON.stringify({ id: `n${n}`, recipientId: `teacher-${n}` }));
    await redis.zadd(from.ends, 1_000 + n, `n${n}`);
  }
  await redis.expire(from.ends, 5_000);
  await moveAll();
  expect(await redis.exists(from.stories, from.ends)).toBe(0);
  for (let n = 0; n < 120; n++) {
    const to = historyKeys(homeOf(`teacher-${n}`, layout));
    expect(await redis.hexists(to.stories, `n${n}`)).toBe(1);
    expect(await redis.zscore(to.ends, `n${n}`)).toBe(String(1_000 + n));
    expect(await redis.ttl(to.ends)).toBeGreaterThan(4_900);
  }
});

/** A producer of this layout. */
function produce(prefix: string) {
  const producer = createProducer({ ...testTarget(), prefix });
  onTestFinished(() => producer.close());
  return producer;
}

test('while jobs are moved an id is one notification, wherever it is', async () => {
  const { prefix, mover, moveAll, queueOf, formerQueueOf } = await openReshard();
  const former = await formerQueueOf('teacher-42');
  await former.add('push', dataOf('old', 'teacher-42'), { jobId: 'old', delay: 3_600_000 });
  const producer = produce(prefix);
  const add = async (id: string) => (await producer.enqueue(notification({ id, recipientId: 'teacher-42' }))).added;
  expect(await add('old')).toBe(false); // in the former queue
  expect([await add('new'), await add('new')]).toEqual([true, false]);
  // A producer of another language that knows the former number.
  await former.add('push', dataOf('new', 'teacher-42'), { jobId: 'new' });
  let between = true;
  const looking = mover(1, async () => {
    between &&= !(await add('old'));
  });
  await moveAll(looking);
  expect(between).toBe(true);
  expect(await add('old')).toBe(false); // at its home
  expect(await jobsIn([former])).toEqual({});
  expect(await jobsIn([await queueOf('teacher-42')])).toEqual({ old: 1, new: 1 });
});

test('a producer that looks after an id was added elsewhere follows at once, and loses nothing', async () => {
  const { prefix, layout, write, queueOf, former } = await openReshard();
  await write({ version: 2, phase: 'prepare', prefixes: former, next: layout.prefixes, former: [] });
  const [late, early] = [produce(prefix), produce(prefix)];
  await late.enqueue(notification({ id: 'a', recipientId: 'teacher-42' })); // it has looked
  await write(layout);
  const both = notification({ id: 'b', recipientId: 'teacher-42' });
  expect(await early.enqueue(both)).toMatchObject({ added: true });
  expect(await late.enqueue(both)).toMatchObject({ added: false });
  // One that was killed between its mark and its add has added nothing.
  const redis = connectRedis();
  await redis.hset(`${former[0] ?? ''}:${QUEUE}:c`, 'pushpacer:moved', '1');
  expect(await late.enqueue(notification({ id: 'c', recipientId: 'teacher-42' }))).toMatchObject({ added: true });
  expect(await jobsIn([await queueOf('teacher-42')])).toEqual({ b: 1, c: 1 });
});

test('a mark of an earlier change does not keep an id from being added', async () => {
  const { redis, prefix, write, queueOf, layout } = await openReshard();
  await write({ ...layout, phase: 'steady' });
  const home = await queueOf('teacher-42');
  await redis.hset(home.toKey('x'), 'pushpacer:moved', '1');
  const input = notification({ id: 'x', recipientId: 'teacher-42' });
  const producer = produce(prefix);
  expect([await producer.enqueue(input), await producer.enqueue(input)].map(({ added }) => added)).toEqual([
    true,
    false,
  ]);
});

test('status and cancel find a notification before, while and after it is moved', async () => {
  const { prefix, write, layout, former, mover, moveAll, queueOf } = await openReshard();
  await write({ version: 2, phase: 'prepare', prefixes: former, next: layout.prefixes, former: [] });
  const early = produce(prefix);
  const later = { sendAfter: new Date(Date.now() + 3_600_000).toISOString(), cancellationKey: 'trip-77' };
  for (const id of ['a', 'b', 'c']) await early.enqueue(notification({ id, recipientId: 'teacher-42', ...later }));
  await write(layout);
  const producer = produce(prefix);
  expect(await producer.status('a')).toMatchObject({ state: 'waiting' });
  const seen: unknown[] = [];
  const looking = mover(1, async () => {
    seen.push((await producer.status('a')).state);
  });
  expect(await producer.cancel({ id: 'b' })).toEqual({ canceled: 1, tooLate: 0 });
  await moveAll(looking);
  expect(seen).toEqual(seen.map(() => 'waiting'));
  expect(seen.length).toBeGreaterThan(2);
  const key = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };
  expect(await producer.cancel(key)).toEqual({ canceled: 3, tooLate: 0 });
  const index = await connectRedis().keys(`${homeOf('teacher-42', layout)}:cancellation:*`);
  expect(index).toHaveLength(1);
  expect(await connectRedis().keys(`${former[0] ?? ''}:cancellation:*`)).toEqual([]);
  // Woken: they are due now.
  const delayedKey = (await queueOf('teacher-42')).toKey('delayed');
  expect(await connectRedis().zcount(delayedKey, '-inf', scoreOfDue(Date.now() + 1))).toBe(3);
});
