import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { createProducer } from '../../../src/producer/producer.ts';
import {
  allIsWell,
  allReady,
  eventually,
  KEPT,
  openFaultBench,
  openUnderWay,
  page,
  PATIENCE,
} from '../../support/fault-bench.ts';
import { ownRedis } from '../../support/own-redis.ts';
import { present } from '../../queue/support.ts';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeNotification } from '../../support/push.ts';
import { openRedisProxy } from '../../support/redis-proxy.ts';
import { GROUP, openSentinelGroup } from '../../support/redis-sentinel.ts';
import { connectRedis } from '../../support/redis.ts';

it.each(['ALL', 'WRITE'])(
  'a Redis that is paused (%s) for longer than the limiter waits stops all sends, and its pages say so',
  PATIENCE,
  async (mode) => {
    const { connection, bench, workers } = await openUnderWay({ workers: 1, add: [30], delivered: 8 });
    const worker = present(workers[0]);
    await connection.call('CLIENT', 'PAUSE', 3_000, mode);
    const before = bench.alerts();
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503)); // it waits behind a write
    const pages = await Promise.all([page(worker, '/metrics'), page(worker, '/healthz')]);
    expect(pages.map(({ status }) => status)).toEqual([200, 200]);
    expect(bench.alerts() - before).toBeLessThanOrEqual(4); // those that had been admitted
    await allIsWell(bench, workers);
  },
);

const FULL_MS = 6_000;

it(
  'a Redis that is full for longer than the locks last loses nothing, makes no dead letter and spends no attempt',
  PATIENCE,
  async () => {
    const env = { LOCK_DURATION: '2s' };
    const { connection, bench, workers } = await openUnderWay({ env, add: [48, 8], delivered: 12 });
    await connection.config('SET', 'maxmemory', '1');
    // From now on no job can be taken. Those that were sent, and whose end cannot be saved, may be sent once more (docs/redis.md).
    const inFlight = await bench.queue.getActiveCount();
    await Promise.any(workers.map((worker) => worker.waitForLine(/OOM/)));
    for (const worker of workers) expect((await page(worker, '/metrics')).status).toBe(200);
    await sleep(FULL_MS);
    await connection.config('SET', 'maxmemory', '0');

    await bench.completed();
    await allReady(workers);
    const jobs = await bench.queue.getJobs(['completed']);
    expect(jobs.every((job) => job.attemptsMade === 1)).toBe(true);
    expect(jobs.every((job) => job.stalledCounter <= 4)).toBe(true);
    const verdict = bench.verdict();
    expect(verdict).toMatchObject({ ...KEPT, duplicates: verdict.duplicates });
    expect(verdict.duplicates).toBeLessThanOrEqual(inFlight);
  },
);

it(
  'a master that becomes a replica for some seconds refuses writes, and nothing is lost, spent or dead-lettered',
  PATIENCE,
  async () => {
    const { connection, bench, workers } = await openUnderWay({ add: [36], delivered: 12 });
    await connection.replicaof('127.0.0.1', 1); // nobody there: it keeps its data, and serves it read-only
    await Promise.any(workers.map((worker) => worker.waitForLine(/READONLY/)));
    const before = bench.alerts();
    for (const worker of workers) expect((await page(worker, '/metrics')).status).toBe(200);
    await connection.replicaof('NO', 'ONE');
    await allIsWell(bench, workers);
    expect(bench.alerts()).toBeGreaterThan(before);
  },
);

/** A refused client reads Redis's word, or only that the connection was reset, as it happens; Redis counts them. */
async function refused(redis: Redis): Promise<number> {
  return Number(/rejected_connections:(\d+)/.exec(await redis.info('stats'))?.[1]);
}

it('a worker that starts while Redis takes no more clients waits for its place', PATIENCE, async () => {
  const redis = await ownRedis();
  const connection = connectRedis(redis.url);
  const bench = await openFaultBench({ connection, env: { REDIS_URL: redis.url } });
  await bench.add(4);
  await connection.config('SET', 'maxclients', '1'); // those that are in stay
  const worker = startProcess({ args: ['workers/notifications.ts'], env: bench.env });
  await worker.waitForLine(/no connection to Redis/);
  expect(await refused(connection)).toBeGreaterThan(0);
  expect(bench.alerts()).toBe(0);
  await connection.config('SET', 'maxclients', '1000');
  await worker.waitForLine(/"msg":"ready"/);
  await bench.completed();
});

it('workers that lose their places come back when there are some, and send nothing twice', PATIENCE, async () => {
  const { connection, bench, workers } = await openUnderWay({ add: [36], delivered: 12 });
  await connection.config('SET', 'maxclients', '1');
  await connection.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await Promise.all(workers.map((worker) => worker.waitForLine(/no connection to Redis/)));
  await eventually(async () => expect(await refused(connection)).toBeGreaterThan(4));
  for (const worker of workers) await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
  await connection.config('SET', 'maxclients', '1000');

  await bench.completed();
  expect(bench.verdict()).toMatchObject(KEPT);
  await allReady(workers);
});

it(
  'a limiter Redis that is down stops all sends, spends no attempt, and all goes on when it is back',
  PATIENCE,
  async () => {
    const [redis, limiterRedis] = await Promise.all([ownRedis(), ownRedis()]);
    const proxy = await openRedisProxy(limiterRedis.port);
    const env = { REDIS_URL: redis.url, LIMITER_REDIS_URL: proxy.url };
    const bench = await openFaultBench({ connection: connectRedis(redis.url), env });
    const worker = await bench.startWorker();
    await bench.add(24);
    await bench.delivered(8);

    await proxy.refuse();
    await worker.waitForLine(/"outcome":"held".*"code":"limiter-unavailable"/);
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
    expect((await page(worker, '/metrics')).text).toContain('pushpacer_retries_total{kind="held"}');
    const before = bench.alerts();
    await bench.add(8);
    await worker.waitForLine(/"jobId":"fault-31".*"outcome":"held"/);
    expect(bench.alerts()).toBe(before);

    await proxy.admit();
    await allIsWell(bench, [worker]);
    expect((await worker.waitForLine(/"outcome":"held"/)).includes('"attempts":0')).toBe(true);
  },
);

/** So many writes, each of which takes this long to read back: some seconds of LOADING. */
const WRITES = 4_000;
const READ_US = 800;

it('a worker that starts while Redis reads its file back waits for the end of that', PATIENCE, async () => {
  const options = { dir: await temporaryFolder(), appendonly: true };
  const first = await ownRedis(options);
  const connection = connectRedis(first.url);
  const bench = await openFaultBench({ connection, env: { REDIS_URL: first.url } });
  await bench.add(4);
  const filling = connection.pipeline();
  for (let index = 0; index < WRITES; index++) filling.set(`filling-${index}`, index);
  await filling.exec();
  await first.close();

  const slowly = ['--key-load-delay', String(READ_US), '--loading-process-events-interval-bytes', '1024'];
  const again = ownRedis({ ...options, port: first.port, extraArgs: slowly });
  const probe = new Redis(first.url, { enableReadyCheck: false, retryStrategy: () => 20, maxRetriesPerRequest: null });
  probe.on('error', () => undefined); // refused until it listens
  onTestFinished(() => {
    probe.disconnect();
  });
  await eventually(() => expect(probe.ping()).rejects.toThrow(/LOADING/));
  const worker = startProcess({ args: ['workers/notifications.ts'], env: bench.env });
  await again;
  await worker.waitForLine(/"msg":"ready"/);
  await bench.completed();
});

it.each(['always', 'everysec'])(
  'a Redis that is killed and started again on its AOF (%s) loses nothing, doubles nothing and lifts no limit',
  PATIENCE,
  async (appendfsync) => {
    const dir = await temporaryFolder();
    const options = { dir, appendonly: true, extraArgs: ['--appendfsync', appendfsync] };
    const { redis: first, bench, workers } = await openUnderWay({ redis: options, add: [36], delivered: 15 });
    const worker = present(workers[0]);
    process.kill(first.pid, 'SIGKILL');
    await first.ended;
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
    await ownRedis({ ...options, port: first.port });

    await bench.completed();
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
    expect(bench.verdict()).toMatchObject(KEPT);
  },
);

it('workers go on at the new master when theirs is killed, and so do producers and commands', PATIENCE, async () => {
  const { master, env, sentinel, connection } = await openSentinelGroup();
  const bench = await openFaultBench({ connection, env });
  const [worker] = await Promise.all([bench.startWorker(), bench.startWorker()]);
  await bench.add(36);
  await bench.delivered(12);
  // What the replica had not heard of may be lost, as docs/redis.md says: no more is written until it has heard of all.
  await connection.call('CLIENT', 'PAUSE', 5_000, 'WRITE');
  expect(await connection.wait(1, 2_000)).toBe(1);

  process.kill(master.pid, 'SIGKILL');
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
  await eventually(async () => {
    expect(await sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', GROUP)).not.toContain(String(master.port));
  });
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200), 10_000);

  await bench.completed();
  const { duplicates, ...verdict } = bench.verdict();
  expect(verdict).toMatchObject({ gapViolations: KEPT.gapViolations, windowViolations: KEPT.windowViolations });
  expect(duplicates).toBeLessThanOrEqual(2); // what the replica had not heard of yet

  const { REDIS_URL: redisUrl, REDIS_SENTINEL_PASSWORD: password } = env as Record<string, string>;
  const producer = createProducer({
    redisUrl: redisUrl ?? '',
    sentinel: { name: GROUP, password: password ?? '' },
    prefix: bench.prefix,
  });
  expect(await producer.enqueue(makeNotification({ id: 'by-producer' }))).toEqual({ id: 'by-producer', added: true });
  await producer.close();
  const flags = ['--recipient', 'teacher-9', '--fcm', 'some-token', '--title', 'Room 12', '--body', 'By command'];
  const command = startProcess({ args: ['scripts/enqueue.ts', ...flags], env: { ...env, QUEUE_PREFIX: bench.prefix } });
  expect(await command.waitForExit()).toMatchObject({ code: 0 });
  await bench.delivered(38);
});

it('a producer says which Sentinels do not answer', async () => {
  const redisUrl = 'redis://:s3cret@127.0.0.1:1,redis://127.0.0.1:2';
  const producer = createProducer({ redisUrl, sentinel: { name: GROUP } });
  await expect(producer.enqueue(makeNotification())).rejects.toThrow(
    /^Redis is away: mymaster by Sentinel 127\.0\.0\.1:1, 127\.0\.0\.1:2 \(All sentinels are unreachable/,
  );
  await producer.close();
});
