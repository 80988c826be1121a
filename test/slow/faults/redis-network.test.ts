import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { eventually, KEPT, openFaultBench, ownRedis, page, PATIENCE } from '../../support/fault-bench.ts';
import { openRedisProxy } from '../../support/redis-proxy.ts';
import { connectRedis } from '../../support/redis.ts';

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
  for (const worker of workers) await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
});

it('connections that fall silent are given up within 15 s, and what they held is done once', PATIENCE, async () => {
  const bench = await openProxied();
  const worker = await bench.startWorker();
  await bench.add(24, 2);
  await bench.delivered(6);
  const silentAt = performance.now();
  bench.proxy.silence();
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(503));
  await eventually(async () => expect((await page(worker, '/readyz')).status).toBe(200));
  expect(performance.now() - silentAt).toBeLessThan(15_000 + 2_000); // the page itself, and a busy machine
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
