import { expect, it, onTestFinished } from 'vitest';
import { RedisAwayError } from '../../../src/redis/connection.ts';
import { createProducer, type Producer } from '../../../src/queue/producer.ts';
import { ownRedis } from '../../support/fault-bench.ts';
import { startProcess } from '../../support/process.ts';
import { makeNotification } from '../../support/push.ts';
import { connectRedis, testPrefix } from '../../support/redis.ts';
import { openRedisProxy } from '../../support/redis-proxy.ts';

const TIMEOUT_MS = 1_000;

async function openProducer() {
  const redis = await ownRedis();
  const proxy = await openRedisProxy(redis.port);
  const prefix = testPrefix();
  const producer = createProducer({ redisUrl: proxy.url, prefix, timeoutMs: TIMEOUT_MS });
  onTestFinished(() => producer.close());
  expect(await producer.enqueue(makeNotification({ id: 'before' }))).toEqual({ id: 'before', added: true });
  return { redis, connection: connectRedis(redis.url), proxy, producer, prefix };
}

/** Fails, clearly and in time. */
async function refusal(producer: Producer): Promise<string> {
  const askedAt = performance.now();
  const error: unknown = await producer.enqueue(makeNotification()).catch((caught: unknown) => caught);
  expect(performance.now() - askedAt).toBeLessThan(2 * TIMEOUT_MS + 500); // waits to be connected, then for the answer
  expect(error).toBeInstanceOf(RedisAwayError);
  return (error as Error).message;
}

/** As soon as it can: a connection that is just being opened anew refuses for a moment. */
async function worksAgain(producer: Producer): Promise<void> {
  const again = () => producer.enqueue(makeNotification({ id: 'after' }));
  await expect
    .poll(
      () =>
        again().then(
          () => true,
          () => false,
        ),
      { timeout: 5_000 },
    )
    .toBe(true);
}

it('a producer whose connection falls silent says so in time, and gets another one', async () => {
  const { producer, proxy } = await openProducer();
  proxy.silence();
  expect(await refusal(producer)).toMatch(/^Redis is away: 127\.0\.0\.1:\d+ \(/);
  await worksAgain(producer);
});

it('a producer whose connection is reset while it waits is told at once, not at its timeout', async () => {
  const { producer, connection, proxy } = await openProducer();
  await connection.call('CLIENT', 'PAUSE', 5_000, 'WRITE');
  const failing = refusal(producer);
  await expect.poll(async () => /blocked_clients:1/.test(await connection.info('clients'))).toBe(true);
  const resetAt = performance.now();
  proxy.reset();
  expect(await failing).toMatch(/^Redis is away: 127\.0\.0\.1:\d+ \(/);
  expect(performance.now() - resetAt).toBeLessThan(TIMEOUT_MS / 2);
  await connection.call('CLIENT', 'UNPAUSE');
  await worksAgain(producer);
});

it('a producer tells that Redis is full', async () => {
  const { producer, connection } = await openProducer();
  await connection.config('SET', 'maxmemory', '1');
  expect(await refusal(producer)).toMatch(/^Redis cannot now: 127\.0\.0\.1:\d+ \(OOM /);
  await connection.config('SET', 'maxmemory', '0');
  await worksAgain(producer);
});

it('a producer tells that its Redis has become a replica', async () => {
  const { producer, connection } = await openProducer();
  await connection.replicaof('127.0.0.1', 1);
  expect(await refusal(producer)).toMatch(/^Redis cannot now: 127\.0\.0\.1:\d+ \(READONLY /);
  await connection.replicaof('NO', 'ONE');
  await worksAgain(producer);
});

it('a producer says that Redis takes no more clients, or at least that it is away', async () => {
  const { producer, connection } = await openProducer();
  await connection.config('SET', 'maxclients', '1');
  await connection.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  expect(await refusal(producer)).toMatch(/^Redis (is away|cannot now): /);
  await connection.config('SET', 'maxclients', '1000');
  await worksAgain(producer);
});

it('the command tells it in one line, and ends with 1', async () => {
  const { redis, connection, prefix } = await openProducer();
  await connection.config('SET', 'maxmemory', '1');
  const command = startProcess({
    args: ['scripts/enqueue.ts', '--recipient', 'teacher-9', '--fcm', 'some-token', '--body', 'Too much'],
    env: { REDIS_URL: redis.url, QUEUE_PREFIX: prefix },
  });
  const { code, stderr } = await command.waitForExit();
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: expect.stringMatching(/^error: Redis cannot now: .*\(OOM .*\n$/) as string,
  });
});
