import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { eventually, KEPT, openFaultBench, ownRedis, page, PATIENCE } from '../support/fault-bench.ts';
import { connectRedis } from '../support/redis.ts';

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
    expect(bench.verdict()).toMatchObject(KEPT);
  },
);
