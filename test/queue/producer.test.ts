import type { Redis } from 'ioredis';
import { createServer } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { connectProducer, RedisAwayError } from '../../src/redis/connection.ts';
import { createProducer, type EnqueueInput, type Producer, type ProducerOptions } from '../../src/queue/producer.ts';
import { shardOf, shardPrefixes } from '../../src/queue/names.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { connectRedis, testRedisUrl } from '../support/redis.ts';
import { consume, notification, openQueues, present } from './support.ts';

function produce(options: Partial<ProducerOptions> = {}): Producer {
  const producer = createProducer({ redisUrl: testRedisUrl(), ...options });
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
  expect(job.priority).toBe(5);
});

test('the same id twice is one notification, also when the first is done', async () => {
  const { prefix, queue } = openQueues();
  const producer = produce({ prefix });
  const both = await Promise.all([1, 2].map(() => produce({ prefix }).enqueue(notification({ id: '42' }))));
  expect(both.map(({ added }) => added).sort()).toEqual([false, true]);
  const done = vi.fn().mockResolvedValue(undefined);
  consume(prefix, done as () => Promise<void>);
  await vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(1));
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

test('of many, the good ones go in and each bad one is told at its index', async () => {
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

test('goes on after SCRIPT FLUSH', async () => {
  const { prefix } = openQueues();
  const server = await startEmbeddedRedis(); // one of its own: the flush would reach all tests
  onTestFinished(() => server.close());
  const producer = produce({ redisUrl: server.url, prefix });
  await producer.enqueue(notification({ id: 'before' }));
  await connectRedis(server.url).script('FLUSH');
  expect(await producer.enqueueMany([notification({ id: 'before' }), notification({ id: 'after' })])).toEqual([
    { kind: 'duplicate', id: 'before' },
    { kind: 'added', id: 'after' },
  ]);
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
  const mute = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void mute.close());
  await new Promise((resolve) => mute.once('listening', resolve));
  const { port } = mute.address() as { port: number };
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
  const server = await startEmbeddedRedis();
  onTestFinished(() => server.close());
  const admin = connectRedis(server.url);
  const producer = produce({ redisUrl: server.url, prefix, timeoutMs: 300 });
  expect(await producer.enqueue(notification({ id: 'a' }))).toEqual({ id: 'a', added: true });
  process.kill(server.pid, 'SIGSTOP');
  await expect(producer.enqueue(notification({ id: 'b' }))).rejects.toBeInstanceOf(RedisAwayError);
  process.kill(server.pid, 'SIGCONT');
  await admin.ping();
  await vi.waitFor(async () => expect((await producer.enqueue(notification({ id: 'c' }))).added).toBe(true));
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
