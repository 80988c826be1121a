import type { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { eventually, KEPT, openFaultBench, ownRedis, page, PATIENCE } from '../support/fault-bench.ts';
import { startProcess } from '../support/process.ts';
import { connectRedis } from '../support/redis.ts';

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
