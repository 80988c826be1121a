import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { eventually, KEPT, openFaultBench, ownRedis, page, PATIENCE } from '../../support/fault-bench.ts';
import { startProcess } from '../../support/process.ts';
import { connectRedis } from '../../support/redis.ts';

it.each(['ALL', 'WRITE'])(
  'a Redis that is paused (%s) for longer than the limiter waits holds everything, and its pages tell the truth',
  PATIENCE,
  async (mode) => {
    const redis = await ownRedis();
    const connection = connectRedis(redis.url);
    const bench = await openFaultBench({ connection, env: { REDIS_URL: redis.url } });
    const worker = await bench.startWorker();
    await bench.add(30);
    await bench.delivered(8);

    await connection.call('CLIENT', 'PAUSE', 3_000, mode);
    const before = bench.alerts();
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503)); // it waits behind a write
    const pages = await Promise.all([page(worker, '/metrics'), page(worker, '/healthz')]);
    expect(pages.map(({ status }) => status)).toEqual([200, 200]);
    expect(bench.alerts() - before).toBeLessThanOrEqual(4); // those that had been admitted

    await bench.completed();
    expect(bench.verdict()).toMatchObject(KEPT);
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
    expect((await bench.queue.getJobs(['completed'])).every((job) => job.attemptsMade === 1)).toBe(true);
  },
);

const FULL_MS = 6_000;

it(
  'a Redis that is full for longer than the locks last loses nothing, buries nothing and spends no attempt',
  PATIENCE,
  async () => {
    const redis = await ownRedis();
    const connection = connectRedis(redis.url);
    const bench = await openFaultBench({ connection, env: { REDIS_URL: redis.url, LOCK_DURATION: '2s' } });
    const workers = await Promise.all([bench.startWorker(), bench.startWorker()]);
    await bench.add(48, 8);
    await bench.delivered(12);

    await connection.config('SET', 'maxmemory', '1');
    // From now on no job can be taken. Those that were sent, and whose end cannot be saved, may be sent once more (docs/redis.md).
    const inFlight = await bench.queue.getActiveCount();
    await Promise.any(workers.map((worker) => worker.waitForLine(/OOM/)));
    for (const worker of workers) expect((await page(worker, '/metrics')).status).toBe(200);
    await sleep(FULL_MS);
    await connection.config('SET', 'maxmemory', '0');

    await bench.completed();
    for (const worker of workers)
      await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
    const jobs = await bench.queue.getJobs(['completed']);
    expect(jobs.every((job) => job.attemptsMade === 1)).toBe(true);
    expect(jobs.every((job) => job.stalledCounter <= 4)).toBe(true);
    const verdict = bench.verdict();
    expect(verdict).toMatchObject({ ...KEPT, duplicates: verdict.duplicates });
    expect(verdict.duplicates).toBeLessThanOrEqual(inFlight);
  },
);

it(
  'a master that becomes a replica for some seconds refuses writes, and nothing is lost, spent or buried',
  PATIENCE,
  async () => {
    const redis = await ownRedis();
    const connection = connectRedis(redis.url);
    const bench = await openFaultBench({ connection, env: { REDIS_URL: redis.url } });
    const workers = await Promise.all([bench.startWorker(), bench.startWorker()]);
    await bench.add(36);
    await bench.delivered(12);

    await connection.replicaof('127.0.0.1', 1); // nobody there: it keeps its data, and serves it read-only
    await Promise.any(workers.map((worker) => worker.waitForLine(/READONLY/)));
    const before = bench.alerts();
    for (const worker of workers) expect((await page(worker, '/metrics')).status).toBe(200);
    await connection.replicaof('NO', 'ONE');

    await bench.completed();
    expect(bench.alerts()).toBeGreaterThan(before);
    expect(bench.verdict()).toMatchObject(KEPT);
    expect((await bench.queue.getJobs(['completed'])).every((job) => job.attemptsMade === 1)).toBe(true);
    for (const worker of workers)
      await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
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
  const redis = await ownRedis();
  const connection = connectRedis(redis.url);
  const bench = await openFaultBench({ connection, env: { REDIS_URL: redis.url } });
  const workers = await Promise.all([bench.startWorker(), bench.startWorker()]);
  await bench.add(36);
  await bench.delivered(12);
  await connection.config('SET', 'maxclients', '1');
  await connection.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await Promise.all(workers.map((worker) => worker.waitForLine(/no connection to Redis/)));
  await eventually(async () => expect(await refused(connection)).toBeGreaterThan(4));
  for (const worker of workers) await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
  await connection.config('SET', 'maxclients', '1000');

  await bench.completed();
  expect(bench.verdict()).toMatchObject(KEPT);
  for (const worker of workers) await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
});
