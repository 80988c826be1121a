import type { Queue } from 'bullmq';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createRuns, type RunRequest, type Runs, type RunsOptions } from '../../src/dead-letters/runs.ts';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import { shardPrefixes } from '../../src/queue/names.ts';
import { connectProducer, explained, type RedisTarget } from '../../src/redis/connection.ts';
import { createShards } from '../../src/queue/shards/shards.ts';
import { openQueues, present } from '../queue/support.ts';
import { openRedisProxy } from '../support/redis-proxy.ts';
import { testPrefix, testRedisUrl, testTarget } from '../support/redis.ts';
import { addDead, deadLetter, manyLetters } from './letters.ts';
import { waitFor } from '../support/wait.ts';

/** Dead letters in as many shards, as other programs see them, and runs at a connection of their own. */
async function open(shardCount = 1, options: Partial<RunsOptions> = {}, target: RedisTarget = testTarget()) {
  const prefixes = shardPrefixes(testPrefix(), shardCount);
  const queues = prefixes.map((prefix) => openQueues(prefix));
  const connection = connectProducer(target);
  connection.on('error', () => undefined);
  const shards = createShards(connection, { prefix: '', shards: 1 });
  const opened = Promise.all(prefixes.map(async (prefix) => createDeadLetters(await shards.at(prefix))));
  await opened;
  const runs = createRuns({ shards: () => opened, explain: (error) => explained(connection, error), ...options });
  onTestFinished(async () => {
    await runs.close();
    connection.disconnect();
  });
  return { queues, runs };
}

const request = (fields: Partial<RunRequest> = {}): RunRequest => ({
  ...{ verb: 'replay', which: {}, buriedUntilMs: Date.now() + 1_000, perSecond: Infinity, by: 'ops' },
  ...fields,
});

function begin(runs: Runs, fields: Partial<RunRequest> = {}): string {
  const started = runs.start(request(fields));
  if (started.kind !== 'started') throw new Error('expected a run to start');
  return started.run.id;
}

async function ended(runs: Runs, id: string) {
  await vi.waitFor(() => expect(runs.find(id)?.state).not.toBe('running'), { timeout: 20_000, interval: 20 });
  return present(runs.find(id));
}

const replayed = async (queue: Queue) => (await queue.getPrioritized(0, -1)).map(({ id }) => id);

test('a run replays what the filter matches, the oldest of all shards first, and counts it', async () => {
  const { queues, runs } = await open(2);
  const [first, second] = [present(queues[0]), present(queues[1])];
  await addDead(first.deadQueue, {
    a: deadLetter('a', { deadAt: 1_000 }),
    c: deadLetter('c', { deadAt: 3_000 }),
    other: deadLetter('other', { reason: 'stalled' }),
  });
  await addDead(second.deadQueue, { b: deadLetter('b', { deadAt: 2_000 }), d: deadLetter('d', { deadAt: 4_000 }) });
  const id = begin(runs, { which: { reason: 'rejected' } });
  expect(await ended(runs, id)).toMatchObject({
    ...{ id, state: 'done', by: 'ops', of: 4, done: 4, gone: 0, byReason: { rejected: 4 } },
    endedAt: expect.any(Number) as number,
  });
  expect(await replayed(first.queue)).toEqual(['a#r1', 'c#r1']);
  expect(await replayed(second.queue)).toEqual(['b#r1', 'd#r1']);
  expect(await first.deadQueue.getJobCountByTypes('wait')).toBe(1);
});

test('it takes nothing before it may, and nothing at all if it is stopped by then', async () => {
  const { runs, queues } = await open();
  const [queue] = queues;
  await addDead(present(queue).deadQueue, manyLetters(3));
  const ready = Promise.withResolvers<undefined>();
  const ids = [0, 1].map(() => {
    const started = runs.start(request(), ready.promise);
    return started.kind === 'started' ? started.run.id : '';
  });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(runs.list()).toMatchObject([
    { state: 'running', done: 0 },
    { state: 'running', done: 0 },
  ]);
  runs.stop(ids[0] ?? '');
  ready.resolve(undefined);
  expect(await ended(runs, ids[1] ?? '')).toMatchObject({ state: 'done', done: 3 });
  expect(await ended(runs, ids[0] ?? '')).toMatchObject({ state: 'stopped', done: 0 });
});

test('a choice of single ones takes these, in their shard', async () => {
  const { queues, runs } = await open(2);
  for (const { deadQueue } of queues) await addDead(deadQueue, { a: deadLetter('a'), b: deadLetter('b') });
  const which = [{ shard: 1, id: 'a' }, { shard: 0, id: 'never there' }, { shard: 7, id: 'a' }]; // prettier-ignore
  expect(await ended(runs, begin(runs, { verb: 'discard', which }))).toMatchObject({ state: 'done', of: 1, done: 1 });
  const left = await Promise.all(
    queues.map(async ({ deadQueue }) => (await deadQueue.getJobs('wait')).map((job) => job.id)),
  );
  expect(left.map((ids) => ids.sort())).toEqual([['a', 'b'], ['b']]);
});

test('what came after the choice stays', async () => {
  const { queues, runs } = await open();
  const { deadQueue } = present(queues[0]);
  await addDead(deadQueue, manyLetters(3));
  const buriedUntilMs = Math.max(...(await deadQueue.getJobs('wait')).map((job) => job.timestamp));
  await waitFor(() => expect(Date.now()).toBeGreaterThan(buriedUntilMs));
  await addDead(deadQueue, { late: deadLetter('late') });
  expect(await ended(runs, begin(runs, { buriedUntilMs }))).toMatchObject({ of: 3, done: 3 });
  const late = [{ shard: 0, id: 'late' }];
  expect(await ended(runs, begin(runs, { buriedUntilMs, which: late }))).toMatchObject({ state: 'done', of: 0 });
  expect(await deadQueue.getJobCountByTypes('wait')).toBe(1);
});

test('it stops in the middle, and started again it takes the rest', async () => {
  const { queues, runs } = await open();
  const { queue, deadQueue } = present(queues[0]);
  await addDead(deadQueue, manyLetters(300));
  const id = begin(runs, { perSecond: 100 });
  await waitFor(() => expect(runs.find(id)?.done).toBeGreaterThan(10));
  expect(runs.stop(id)).toBe(true);
  const stopped = await ended(runs, id);
  expect(stopped).toMatchObject({ state: 'stopped', of: 300 });
  expect(stopped.done).toBeLessThan(300);
  expect(await replayed(queue)).toHaveLength(stopped.done);
  expect(runs.stop(id)).toBe(false);
  expect(await ended(runs, begin(runs))).toMatchObject({
    state: 'done',
    of: 300 - stopped.done,
    done: 300 - stopped.done,
  });
  expect(await replayed(queue)).toEqual(Object.keys(manyLetters(300)).map((each) => `${each}#r1`));
});

test('stopped while it counts, it does not say how many there are', async () => {
  const { queues, runs } = await open(1);
  await addDead(present(queues[0]).deadQueue, manyLetters(1_000));
  const id = begin(runs);
  await new Promise((resolve) => setTimeout(resolve, 5)); // until it counts
  runs.stop(id);
  const stopped = await ended(runs, id);
  expect(stopped).toMatchObject({ state: 'stopped', done: 0 });
  expect(stopped).not.toHaveProperty('of');
});

test('of runs over the same ones each dead letter is taken by one', async () => {
  const { queues, runs } = await open();
  const { queue, deadQueue } = present(queues[0]);
  await addDead(deadQueue, manyLetters(200));
  const ids = [begin(runs), begin(runs), begin(runs, { verb: 'discard' })];
  expect(runs.start(request())).toEqual({ kind: 'full', most: 3 });
  const [one, two, discard] = await Promise.all(ids.map((id) => ended(runs, id)));
  const counts = [one, two, discard].map((run) => present(run).done);
  expect(counts.reduce((a, b) => a + b, 0)).toBe(200);
  const again = await replayed(queue);
  expect(again).toHaveLength(present(counts[0]) + present(counts[1]));
  expect(new Set(again).size).toBe(again.length);
  expect(await deadQueue.getJobCountByTypes('wait')).toBe(0);
  expect(runs.list().map(({ id }) => id)).toEqual(ids.toReversed());
});

test('while Redis is away for moments it waits, counts each one once, and goes on', async () => {
  const proxy = await openRedisProxy(Number(new URL(testRedisUrl()).port));
  const { queues, runs } = await open(1, {}, { redisUrl: proxy.url });
  const { queue, deadQueue } = present(queues[0]);
  await addDead(deadQueue, manyLetters(300));
  const id = begin(runs, { perSecond: 300 });
  let wasAway = 0;
  for (const done of [30, 120, 200]) {
    await vi.waitFor(() => expect(runs.find(id)?.done).toBeGreaterThan(done), { timeout: 20_000, interval: 10 });
    await proxy.refuse();
    await waitFor(() => expect(runs.find(id)).toMatchObject({ awaySince: expect.any(Number) as number }));
    wasAway++;
    await proxy.admit();
  }
  expect(await ended(runs, id)).toMatchObject({
    state: 'done',
    of: 300,
    done: 300,
    gone: 0,
    byReason: { rejected: 300 },
  });
  expect(wasAway).toBe(3);
  expect(await replayed(queue)).toEqual(Object.keys(manyLetters(300)).map((each) => `${each}#r1`));
});

test('if Redis stays away it says that it failed, and can be started again', async () => {
  const proxy = await openRedisProxy(Number(new URL(testRedisUrl()).port));
  const told: unknown[] = [];
  const { queues, runs } = await open(1, { patienceMs: 300, onEnd: (run) => told.push(run) }, { redisUrl: proxy.url });
  const { queue, deadQueue } = present(queues[0]);
  await addDead(deadQueue, manyLetters(100));
  const id = begin(runs, { perSecond: 50 });
  await waitFor(() => expect(runs.find(id)?.done).toBeGreaterThan(3));
  await proxy.refuse();
  const failed = await ended(runs, id);
  expect(failed).toMatchObject({ state: 'failed', error: expect.stringMatching(/^Redis is away: 127/) as string });
  expect(told).toEqual([failed]);
  await proxy.admit();
  const rest = await ended(runs, begin(runs, { perSecond: Infinity }));
  // One may have been under way; if it was done, no answer has said so.
  expect([100, 99]).toContain(failed.done + rest.done);
  expect(await replayed(queue)).toEqual(Object.keys(manyLetters(100)).map((each) => `${each}#r1`));
});
