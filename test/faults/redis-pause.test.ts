import { expect, it } from 'vitest';
import { eventually, KEPT, openFaultBench, ownRedis, page, PATIENCE } from '../support/fault-bench.ts';
import { connectRedis } from '../support/redis.ts';

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
