import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { createProducer, type Producer } from '../../../src/producer/producer.ts';
import { RedisAwayError } from '../../../src/redis/connection.ts';
import { allReady, eventually, KEPT, openFaultBench, page, PATIENCE } from '../../support/fault-bench.ts';
import { ownRedis } from '../../support/own-redis.ts';
import { startProcess } from '../../support/process.ts';
import { makeNotification } from '../../support/push.ts';
import { openRedisProxy } from '../../support/redis-proxy.ts';
import { connectRedis, testPrefix } from '../../support/redis.ts';

/** Workers that reach their Redis only through the proxy; the test reaches it directly. */
async function openProxied(options: { readonly minGapMs?: number } = {}) {
  const redis = await ownRedis();
  const proxy = await openRedisProxy(redis.port);
  const connection = connectRedis(redis.url);
  return { proxy, connection, ...(await openFaultBench({ connection, env: { REDIS_URL: proxy.url }, ...options })) };
}

it('a Redis that is 50 to 200 ms away in each direction makes alerts late, and never a burst', PATIENCE, async () => {
  const bench = await openProxied({ minGapMs: 600 }); // an answer must arrive within half of it
  await Promise.all([bench.startWorker(), bench.startWorker()]);
  bench.proxy.delay({ leastMs: 50, mostMs: 200 });
  await bench.add(16);
  await bench.completed();
  expect(bench.verdict()).toMatchObject(KEPT);
});

it('connections that are reset again and again lose nothing and double nothing', PATIENCE, async () => {
  const bench = await openProxied();
  const env = { LOCK_DURATION: '3s' }; // a job whose way to the worker was cut comes back when its lock has run out
  const workers = await Promise.all([bench.startWorker(env), bench.startWorker(env)]);
  await bench.add(36);
  const before = bench.proxy.accepted;
  for (let round = 0; round < 8; round++) {
    await sleep(300);
    if (round % 2 === 0) bench.proxy.reset();
    else await bench.connection.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  }
  expect(bench.proxy.accepted - before).toBeGreaterThan(8); // else they were not connected, and nothing was shown
  await bench.completed();
  expect(bench.verdict()).toMatchObject(KEPT);
  await allReady(workers);
});

it('connections that fall silent are given up within 15 s, and the jobs on them are done once', PATIENCE, async () => {
  const bench = await openProxied();
  const worker = await bench.startWorker();
  await bench.add(24, 2);
  await bench.delivered(6);
  const silentAt = performance.now();
  bench.proxy.silence();
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
  expect(performance.now() - silentAt).toBeLessThan(15_000 + 5_000); // the page itself, and a busy machine
  await bench.completed();
  expect(bench.verdict()).toMatchObject(KEPT);
});

it('a worker whose connections are silent still ends on SIGTERM', PATIENCE, async () => {
  const bench = await openProxied();
  const worker = await bench.startWorker({ SHUTDOWN_GRACE: '1s' });
  bench.proxy.silence();
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
  worker.kill('SIGTERM');
  expect((await worker.waitForExit(12_000)).signal).toBeNull();
});

const TIMEOUT_MS = 1_000;

async function openProducer(timeoutMs = TIMEOUT_MS) {
  const redis = await ownRedis();
  const proxy = await openRedisProxy(redis.port);
  const prefix = testPrefix();
  const producer = createProducer({ redisUrl: proxy.url, prefix, timeoutMs });
  onTestFinished(() => producer.close());
  expect(await producer.enqueue(makeNotification({ id: 'before' }))).toEqual({ id: 'before', added: true });
  return { redis, connection: connectRedis(redis.url), proxy, producer, prefix };
}

/** Fails, clearly and in time. */
async function refusal(producer: Producer, timeoutMs = TIMEOUT_MS): Promise<string> {
  const askedAt = performance.now();
  const error: unknown = await producer.enqueue(makeNotification()).catch((caught: unknown) => caught);
  expect(performance.now() - askedAt).toBeLessThan(2 * timeoutMs + 6_000); // to be connected, then to be answered; the rest is for a busy machine
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
      { timeout: 30_000 },
    )
    .toBe(true);
}

it('a producer whose connection falls silent says so in time, and gets another one', async () => {
  const { producer, proxy } = await openProducer();
  proxy.silence();
  expect(await refusal(producer)).toMatch(/^Redis is away: 127\.0\.0\.1:\d+ \(/);
  await worksAgain(producer);
});

it('a producer whose connection is reset while it waits fails at once, not at its timeout', async () => {
  const timeoutMs = 20_000; // it has not passed when the reset comes
  const { producer, connection, proxy } = await openProducer(timeoutMs);
  await connection.call('CLIENT', 'PAUSE', 60_000, 'WRITE');
  const failing = refusal(producer, timeoutMs);
  await expect.poll(async () => /blocked_clients:1/.test(await connection.info('clients'))).toBe(true);
  const resetAt = performance.now();
  proxy.reset();
  expect(await failing).toMatch(/^Redis is away: 127\.0\.0\.1:\d+ \(/);
  expect(performance.now() - resetAt).toBeLessThan(timeoutMs / 2); // at once, and the rest for a busy machine
  await connection.call('CLIENT', 'UNPAUSE');
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

it('the command says it in one line, and ends with 1', async () => {
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
