import { expect, it } from 'vitest';
import { eventually, KEPT, openFaultBench, ownRedis, page, PATIENCE } from '../support/fault-bench.ts';
import { connectRedis } from '../support/redis.ts';

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
