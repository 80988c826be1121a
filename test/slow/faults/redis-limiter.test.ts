import { expect, it } from 'vitest';
import { eventually, KEPT, openFaultBench, ownRedis, page, PATIENCE } from '../../support/fault-bench.ts';
import { openRedisProxy } from '../../support/redis-proxy.ts';
import { connectRedis } from '../../support/redis.ts';

it(
  'a limiter Redis that is down holds everything, spends no attempt, and all goes on when it is back',
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
    await bench.completed();
    expect(bench.verdict()).toMatchObject(KEPT);
    expect((await bench.queue.getJobs(['completed'])).every((job) => job.attemptsMade === 1)).toBe(true);
    expect((await worker.waitForLine(/"outcome":"held"/)).includes('"attempts":0')).toBe(true);
    await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
  },
);
