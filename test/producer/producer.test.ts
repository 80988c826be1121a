import { createServer } from 'node:net';
import { Worker, type Job } from 'bullmq';
import type { Redis } from 'ioredis';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { RedisAwayError, connectProducer } from '../../src/redis/connection.ts';
import {
  checkInput,
  createProducer,
  type EnqueueInput,
  type Enqueued,
  type Producer,
  type ProducerOptions,
} from '../../src/producer/producer.ts';
import { createCancellationIndex } from '../../src/queue/cancellation-index.ts';
import { PRIORITY, QUEUE, shardOf, shardPrefixes } from '../../src/queue/names.ts';
import { newLayout } from '../../src/queue/shards/layout.ts';
import { freePort } from '../../sandbox/redis/embedded-redis.ts';
import { portOf } from '../support/listen.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis, testPrefix, testRedisUrl, testTarget } from '../support/redis.ts';
import { consume, notification, openQueues, present } from '../queue/support.ts';
import { waitFor } from '../support/wait.ts';

function produce(options: Partial<ProducerOptions> = {}): Producer {
  const target = options.redisUrl === undefined ? testTarget() : {};
  const producer = createProducer({ ...target, ...options });
  onTestFinished(() => producer.close());
  return producer;
}

test('adds the notification as it was handed over, to be retried by nobody but the worker', async () => {
  const { prefix, queue } = openQueues();
  const input = notification({ id: 'msg-1', expiresAt: '2026-11-21T18:00:00Z', data: { threadId: '77' } });
  expect(await produce({ prefix }).enqueue(input)).toEqual({ id: 'msg-1', added: true });
  const job = present(await queue.getJob('msg-1'));
  expect(job.name).toBe('push');
  expect(job.data).toEqual(input);
  expect(job.opts).toMatchObject({ priority: 10, removeOnComplete: { age: 3600, count: 50_000 }, removeOnFail: false });
  expect(await job.getState()).toBe('prioritized');
});

test('makes an id where there is none, and puts what is urgent first', async () => {
  const { prefix, queue } = openQueues();
  const { id } = await produce({ prefix }).enqueue(notification({ priority: 'high' }));
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4/);
  const job = present(await queue.getJob(id));
  expect(job.data).toEqual({ ...notification({ priority: 'high' }), id });
  expect(job.priority).toBe(PRIORITY.high);
});

test('notes who enqueues, in each way to enqueue, and refuses a name that is not usable', async () => {
  const { prefix, queue } = openQueues();
  const producer = produce({ prefix });
  const named = producer.as('Stundenplan, Müller');
  await named.enqueue(notification({ id: 'one' }));
  await named.enqueueMany([notification({ id: 'two' })]);
  await named.enqueueMany([notification({ id: 'three' })], { spreadOverMs: 60_000 });
  await producer.enqueue(notification({ id: 'none' }));
  const by = async (id: string) => (present(await queue.getJob(id)).opts as { enqueuedBy?: string }).enqueuedBy;
  for (const id of ['one', 'two', 'three']) expect(await by(id)).toBe('Stundenplan, Müller');
  expect(await by('none')).toBeUndefined();
  for (const name of ['', 'x'.repeat(101), 'a\nb', 'a\u202eb', 7 as unknown as string]) {
    expect(() => producer.as(name)).toThrow(InputError);
  }
});

test('the same id twice is one notification, also when the first is done', async () => {
  const { prefix, queue } = openQueues();
  const producer = produce({ prefix });
  const both = await Promise.all([1, 2].map(() => produce({ prefix }).enqueue(notification({ id: '42' }))));
  expect(both.map(({ added }) => added).sort()).toEqual([false, true]);
  const done = vi.fn().mockResolvedValue(undefined);
  consume(prefix, done as () => Promise<void>);
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
  expect(await producer.enqueue(notification({ id: '42' }))).toEqual({ id: '42', added: false });
  expect(done).toHaveBeenCalledOnce();
});

test('refuses what does not fit, with every fault, and adds nothing', async () => {
  const { prefix, queue } = openQueues();
  const bad = { ...notification({ recipientId: '', badge: -1 }), id: 'a b' };
  const error = await produce({ prefix })
    .enqueue(bad)
    .catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(InputError);
  expect((error as InputError).faults.map(({ path }) => path).sort()).toEqual(['badge', 'id', 'recipientId']);
  expect(await queue.getJobCountByTypes()).toBe(0);
  for (const nothing of [null, undefined, 'text', [], 7]) {
    await expect(produce({ prefix }).enqueue(nothing as unknown as EnqueueInput)).rejects.toBeInstanceOf(InputError);
  }
});

test('of many, the good ones go in and each bad one is answered at its index', async () => {
  const { prefix, queue } = openQueues();
  const inputs = Array.from({ length: 1_203 }, (_, n) => notification({ id: `n${n % 1_200}` }));
  inputs[7] = notification({ id: 'n7', devices: [] });
  const results = await produce({ prefix }).enqueueMany(inputs);
  expect(results).toHaveLength(1_203);
  expect(results[7]).toMatchObject({ kind: 'invalid', faults: [{ path: 'devices' }] });
  expect(results.slice(-3)).toEqual(['n0', 'n1', 'n2'].map((id) => ({ kind: 'duplicate', id })));
  expect(results.filter(({ kind }) => kind === 'added')).toHaveLength(1_199);
  expect(await queue.getPrioritizedCount()).toBe(1_199);
});

test('each recipient has a shard', async () => {
  const redis = connectRedis();
  const { prefix } = openQueues();
  const inputs = Array.from({ length: 20 }, (_, n) => notification({ id: `n${n}`, recipientId: `teacher-${n}` }));
  const results = await produce({ prefix, shards: 3 }).enqueueMany(inputs);
  expect(results.every(({ kind }) => kind === 'added')).toBe(true);
  const prefixes = shardPrefixes(prefix, 3);
  for (const { id, recipientId } of inputs) {
    expect(await redis.exists(`${present(prefixes[shardOf(recipientId, 3)])}:notifications:${present(id)}`)).toBe(1);
  }
});

test('after SCRIPT FLUSH nothing stays noted under a cancellation key of what workers have ended meanwhile', async () => {
  const server = await ownRedis();
  const redis = connectRedis(server.url);
  const prefix = testPrefix();
  const producer = produce({ redisUrl: server.url, prefix });
  const index = createCancellationIndex(redis, () => newLayout({ prefix, shards: 1 }));
  const ended: unknown[] = [];
  const end = async ({ data, id = '' }: Job<{ recipientId: string }>) => {
    await index.ended({ recipientId: data.recipientId, cancellationKey: 'trip-77' }, id, false);
    ended.push(id);
  };
  const worker = new Worker(QUEUE, end, { connection: redis, prefix, concurrency: 20 });
  onTestFinished(() => worker.close());
  await worker.waitUntilReady();
  await producer.enqueue(notification());
  await redis.script('FLUSH');
  const many = Array.from({ length: 60 }, () => notification({ cancellationKey: 'trip-77' }));
  expect((await producer.enqueueMany(many)).filter(({ kind }) => kind === 'added')).toHaveLength(60);
  await waitFor(() => expect(ended).toHaveLength(61));
  expect(await redis.keys(`${prefix}:cancellation:*`)).toEqual([]);
});

test('a closed producer says that it was closed, and that it is no outage', async () => {
  const { prefix } = openQueues();
  const closed = await (async () => {
    await using producer = produce({ prefix });
    expect(await producer.enqueue(notification())).toMatchObject({ added: true });
    return producer;
  })();
  const calls = [
    closed.enqueue(notification()),
    closed.enqueueMany([notification()]),
    closed.enqueueMany([notification()], { broadcastId: 'b' }),
    closed.status('msg-1'),
    closed.cancel({ id: 'msg-1' }),
  ];
  for (const call of calls) {
    await expect(call).rejects.toThrow('the producer was closed: it takes no more calls');
    await expect(call).rejects.not.toBeInstanceOf(RedisAwayError);
  }
  await closed.close();
});

test('fails fast where nobody listens, and names no password', async () => {
  const producer = produce({ redisUrl: `redis://user:s3cret@127.0.0.1:${await freePort()}/0` });
  const error = await producer.enqueue(notification()).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(RedisAwayError);
  expect((error as Error).message).toMatch(
    /^Redis is away: 127\.0\.0\.1:\d+ \(connect ECONNREFUSED 127\.0\.0\.1:\d+\)$/,
  );
});

test('fails fast where somebody listens and never answers', async () => {
  const port = await portOf(createServer());
  const producer = produce({ redisUrl: `redis://127.0.0.1:${port}`, timeoutMs: 200 });
  await expect(producer.enqueue(notification())).rejects.toThrow(/^Redis is away: 127\.0\.0\.1:\d+ /);
});

test('a request at the very instant at which Redis goes away rejects with RedisAwayError too', async () => {
  const connection = connectProducer({ redisUrl: testRedisUrl() }) as Redis;
  onTestFinished(() => connection.disconnect());
  connection.on('error', () => undefined);
  const { prefix } = openQueues();
  const producer = createProducer({ connection, prefix });
  await producer.enqueue(notification({ id: 'before' }));
  connection.stream.destroy(); // ioredis learns of it in the next turn of the event loop
  await expect(producer.enqueue(notification({ id: 'during' }))).rejects.toBeInstanceOf(RedisAwayError);
});

test('a crowd of requests during an outage waits without a warning of Node', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on('warning', note);
  onTestFinished(() => void process.off('warning', note));
  const producer = produce({ redisUrl: `redis://127.0.0.1:${await freePort()}` });
  const crowd = Array.from({ length: 50 }, () => producer.enqueue(notification()));
  const ends = await Promise.allSettled(crowd);
  expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(50);
  await new Promise(setImmediate); // Node emits warnings in a later turn
  expect(warnings).toEqual([]);
});

test('works again once Redis is back', async () => {
  const { prefix } = openQueues();
  const server = await ownRedis();
  const admin = connectRedis(server.url);
  const producer = produce({ redisUrl: server.url, prefix, timeoutMs: 300 });
  expect(await producer.enqueue(notification({ id: 'a' }))).toEqual({ id: 'a', added: true });
  process.kill(server.pid, 'SIGSTOP');
  await expect(producer.enqueue(notification({ id: 'b' }))).rejects.toBeInstanceOf(RedisAwayError);
  process.kill(server.pid, 'SIGCONT');
  await admin.ping();
  await waitFor(async () => expect((await producer.enqueue(notification({ id: 'c' }))).added).toBe(true));
});

test('of those that give way to the newest, the timestamps show which was added later, within a millisecond too', async () => {
  const { prefix, queue } = openQueues();
  const producer = produce({ prefix });
  const ids = Array.from({ length: 50 }, (_, index) => `n${index}`);
  await producer.enqueueMany(
    ids.map((id) => notification({ id, onThrottle: 'latest', collapseId: 'score', recipientId: 'teacher-42' })),
  );
  await producer.enqueueMany([notification({ id: 'other', onThrottle: 'latest', collapseId: 'other' })]);
  const jobs = await Promise.all(ids.map(async (id) => present(await queue.getJob(id))));
  const timestamps = jobs.map(({ timestamp }) => timestamp);
  expect(timestamps).toEqual([...new Set(timestamps)].toSorted((a, b) => a - b));
  expect(present(await queue.getJob('other')).timestamp).toBeLessThan((timestamps[0] ?? 0) + 1_000);
});

const HOUR_MS = 3_600_000;

describe('sendAfter', () => {
  test('delays the job until then', async () => {
    const { prefix, queue } = openQueues();
    const sendAfter = Date.now() + HOUR_MS;
    const texts = [sendAfter, new Date(sendAfter).toISOString()];
    const producer = produce({ prefix });
    for (const [n, at] of texts.entries()) await producer.enqueue(notification({ id: `n${n}`, sendAfter: at }));
    for (const id of ['n0', 'n1']) {
      const job = present(await queue.getJob(id));
      expect(job.timestamp + job.delay).toBeGreaterThanOrEqual(sendAfter - 1);
      expect(job.timestamp + job.delay).toBeLessThan(sendAfter + 1_000);
      expect(await job.getState()).toBe('delayed');
    }
  });

  test('that has passed delays nothing', async () => {
    const { prefix, queue } = openQueues();
    await produce({ prefix }).enqueue(notification({ id: 'n', sendAfter: Date.now() - 1 }));
    expect(await present(await queue.getJob('n')).getState()).toBe('prioritized');
  });

  test('begins the spread of a broadcast', async () => {
    const { prefix, queue } = openQueues();
    const sendAfter = Date.now() + HOUR_MS;
    const inputs = Array.from({ length: 40 }, (_, n) => notification({ id: `n${n}`, sendAfter }));
    await produce({ prefix }).enqueueMany(inputs, { spreadOverMs: 2 * HOUR_MS });
    const jobs = await queue.getDelayed();
    expect(jobs).toHaveLength(40);
    const due = jobs.map(({ timestamp, delay }) => timestamp + delay - sendAfter);
    expect(Math.min(...due)).toBeGreaterThanOrEqual(-1);
    expect(Math.max(...due)).toBeLessThanOrEqual(2 * HOUR_MS + 1_000);
    expect(Math.max(...due) - Math.min(...due)).toBeGreaterThan(HOUR_MS / 2);
  });

  test('must come before expiresAt, also at the end of a spread', async () => {
    const { prefix, queue } = openQueues();
    const at = Date.now() + HOUR_MS;
    const inputs = [
      notification({ sendAfter: at, expiresAt: at }),
      notification({ sendAfter: at, expiresAt: at + HOUR_MS }),
    ];
    const [equal, after] = await produce({ prefix }).enqueueMany(inputs);
    expect(equal).toMatchObject({ kind: 'invalid', faults: [{ path: 'sendAfter' }] });
    expect(after).toMatchObject({ kind: 'added' });
    const late: unknown[] = [];
    const onResult = (result: unknown): void => void late.push(result);
    await produce({ prefix }).enqueueMany(inputs.slice(1), { spreadOverMs: HOUR_MS, onResult });
    expect(late).toMatchObject([{ kind: 'invalid', faults: [{ path: 'expiresAt' }] }]);
    expect(await queue.getJobCountByTypes()).toBe(1);
  });

  test('lies at most 366 days ahead', async () => {
    const { prefix } = openQueues();
    const [far] = await produce({ prefix }).enqueueMany([notification({ sendAfter: Date.now() + 367 * 24 * HOUR_MS })]);
    expect(far).toMatchObject({ kind: 'invalid', faults: [{ path: 'sendAfter' }] });
  });
});

describe('expiresAt', () => {
  test.each([
    ['microseconds', Date.now() * 1_000],
    ['the year 9999', '9999-12-31T23:59:59Z'],
    ['the last instant of Date', 8.64e15],
    ['367 days ahead', Date.now() + 367 * 24 * HOUR_MS],
  ])('of %s is refused: apns-expiration has 32 bits', (_, expiresAt) => {
    expect(checkInput(notification({ expiresAt }))).toMatchObject({
      kind: 'invalid',
      faults: [{ path: 'expiresAt' }],
    });
  });

  test('may lie 365 days ahead', () => {
    expect(checkInput(notification({ expiresAt: Date.now() + 365 * 24 * HOUR_MS }))).toMatchObject({ kind: 'added' });
  });

  test('and a sendAfter that both lie too far ahead are both refused', () => {
    const sendAfter = Date.now() * 1_000;
    expect(checkInput(notification({ sendAfter, expiresAt: sendAfter + 1 }))).toMatchObject({
      faults: [{ path: 'sendAfter' }, { path: 'expiresAt' }],
    });
  });
});

/** A sequence of so many, one for each recipient, which counts how many were taken from it. */
function sequence(count: number, more: Partial<EnqueueInput> = {}, failAt = Infinity) {
  const taken = { count: 0 };
  async function* inputs(): AsyncGenerator<EnqueueInput> {
    for (let index = 0; index < count; index++) {
      await Promise.resolve();
      if (index === failAt) throw new Error('the database went away');
      taken.count += 1;
      yield notification({ id: `term-start.${index}`, recipientId: `parent-${index}`, ...more });
    }
  }
  return { inputs: inputs(), taken };
}

test('takes a sequence with 500 in memory, and reports each result in order', async () => {
  const { prefix, queue } = openQueues();
  const { inputs, taken } = sequence(1_300);
  const results: [kind: Enqueued['kind'], index: number, taken: number][] = [];
  const onResult = (result: Enqueued, index: number) => void results.push([result.kind, index, taken.count]);
  const ended = await produce({ prefix }).enqueueMany(inputs, { onResult });
  expect(ended).toEqual({ read: 1_300, added: 1_300, duplicates: 0, invalid: 0, skipped: 0 });
  expect(results.map(([, index]) => index)).toEqual(Array.from({ length: 1_300 }, (_, index) => index));
  expect(results.every(([, index, then]) => then <= index + 500)).toBe(true);
  expect(await queue.getJobCountByTypes('prioritized')).toBe(1_300);
});

test('counts duplicates and what does not fit, and adds the others', async () => {
  const { prefix } = openQueues();
  const producer = produce({ prefix });
  const inputs = [notification({ id: 'a' }), notification({ id: 'a' }), notification({ badge: -1 })];
  expect(await producer.enqueueMany(inputs, {})).toEqual({ read: 3, added: 1, duplicates: 1, invalid: 1, skipped: 0 });
});

test('a broadcast goes on where it stopped, also after its ids are forgotten', async () => {
  const { prefix, queue } = openQueues();
  const producer = produce({ prefix });
  const broadcastId = 'term-start';
  const broken = sequence(1_300, {}, 1_200);
  await expect(producer.enqueueMany(broken.inputs, { broadcastId })).rejects.toThrow('the database went away');
  const dealtWith = await queue.getJobCountByTypes('prioritized');
  expect(dealtWith).toBeGreaterThan(1_200 - 500); // less than one batch: on a busy machine each may be smaller than 500
  expect(dealtWith).toBeLessThanOrEqual(1_200);
  await queue.obliterate({ force: true }); // as if they had been delivered, and their ids were free again

  const skipped: number[] = [];
  const onSkipped = (index: number) => void skipped.push(index);
  const again = await producer.enqueueMany(sequence(1_300).inputs, { broadcastId, onSkipped });
  const added = 1_300 - dealtWith;
  expect(again).toEqual({ read: 1_300, added, duplicates: 0, invalid: 0, skipped: dealtWith });
  expect([skipped.length, skipped[0], skipped.at(-1)]).toEqual([dealtWith, 0, dealtWith - 1]);

  const third = await produce({ prefix }).enqueueMany(sequence(1_300).inputs, { broadcastId });
  expect(third).toMatchObject({ added: 0, skipped: 1_300 });
  expect(await connectRedis().ttl(`${prefix}:broadcast:${broadcastId}`)).toBeGreaterThan(6 * 86_400);
});

test('spreads the alerts over a time, each at an instant of its own', async () => {
  const { prefix, queue } = openQueues();
  const spreadOverMs = 3_600_000;
  const before = Date.now();
  await produce({ prefix }).enqueueMany(sequence(600, { priority: 'high' }).inputs, { spreadOverMs });
  const jobs = await queue.getJobs(['delayed', 'prioritized']); // an instant within the first milliseconds is no delay
  const offsets = jobs.map(({ timestamp, delay }) => timestamp + delay - before).sort((a, b) => a - b);
  expect(offsets).toHaveLength(600);
  expect(offsets[0]).toBeGreaterThanOrEqual(0);
  expect(offsets.at(-1)).toBeLessThanOrEqual(spreadOverMs + 60_000); // `before` is a little before the call's own start
  // Of 600 at random, each quarter of the hour has about 150; fewer than 90 would come up less than once in a million runs.
  for (const quarter of [0, 1, 2, 3]) {
    const from = (quarter * spreadOverMs) / 4;
    expect(offsets.filter((at) => at >= from && at < from + spreadOverMs / 4).length).toBeGreaterThan(90);
  }
  expect(jobs.every(({ opts }) => opts.priority === PRIORITY.high)).toBe(true);
});

test('stops after the batch under way when its signal fires', async () => {
  const { prefix, queue } = openQueues();
  const stop = new AbortController();
  const onResult = () => {
    stop.abort(new Error('enough'));
  };
  const ended = produce({ prefix }).enqueueMany(sequence(1_300).inputs, { onResult, signal: stop.signal });
  await expect(ended).rejects.toThrow('enough');
  const added = await queue.getJobCountByTypes('prioritized');
  expect(added).toBeGreaterThan(0);
  expect(added).toBeLessThanOrEqual(500);
});

test('names every option that is not usable, and takes nothing from the sequence', async () => {
  const { prefix } = openQueues();
  const { inputs, taken } = sequence(3);
  const error: unknown = await produce({ prefix })
    .enqueueMany(inputs, { broadcastId: 'a b', spreadOverMs: -1 })
    .catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(InputError);
  expect((error as InputError).faults.map(({ path }) => path)).toEqual(['broadcastId', 'spreadOverMs']);
  expect(taken.count).toBe(0);
});
