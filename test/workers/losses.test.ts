import { Registry } from 'prom-client';
import { expect, it, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { createLog } from '../../src/observe/log.ts';
import { lossText } from '../../src/operations/losses.ts';
import { forgetLosses, noteLoss, readLosses, type NotedLoss } from '../../src/queue/losses.ts';
import { connectLimiter, connectWorker } from '../../src/redis/connection.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { watchLosses } from '../../workers/losses.ts';

const HOUR = 3_600_000;
const [REDIS_TIMEOUT_MS, EVERY_MS] = [2_000, 50];

type Line = Readonly<Record<string, unknown>>;

async function openWatch() {
  const [queue, limiter] = [await startEmbeddedRedis(), await startEmbeddedRedis()];
  const redis = connectWorker({ redisUrl: queue.url });
  const limiterRedis = connectLimiter({ redisUrl: limiter.url }, REDIS_TIMEOUT_MS);
  for (const each of [redis, limiterRedis]) each.on('error', () => undefined);
  const prefix = testPrefix();
  const logged: Line[] = [];
  const log = createLog('info', { write: (line) => void logged.push(JSON.parse(line) as Line) });
  const registry = new Registry();
  const watch = watchLosses({ redis, limiterRedis, prefix, registry, log, everyMs: EVERY_MS });
  onTestFinished(async () => {
    await watch.stop();
    redis.disconnect();
    limiterRedis.disconnect();
    await Promise.all([queue.close(), limiter.close()]);
  });
  const [admin, limiterAdmin] = [connectRedis(queue.url), connectRedis(limiter.url)];
  const looked = () =>
    waitFor(async () => {
      expect(await admin.exists(`${prefix}:stamp`)).toBe(1);
      expect(await limiterAdmin.exists(`${prefix}:stamp`)).toBe(1);
    });
  await looked();
  const noted = () => readLosses(redis, prefix, Date.now());
  return { admin, limiterAdmin, redis, prefix, logged, registry, watch, noted, looked };
}

it('each Redis that was emptied is logged and counted, and noted in the one of the queue', async () => {
  const { admin, limiterAdmin, logged, registry, noted, redis, prefix } = await openWatch();
  expect(await noted()).toEqual([]);
  await limiterAdmin.flushall();
  await waitFor(async () => expect(await noted()).toMatchObject([{ redis: 'limiter', kind: 'emptied' }]));
  await admin.flushall(); // and what was noted
  await waitFor(async () => expect(await noted()).toMatchObject([{ redis: 'queue', kind: 'emptied' }]));
  expect(logged).toMatchObject([
    { level: 'error', of: 'limiter', kind: 'emptied', repeats: 0 },
    { level: 'error', of: 'queue', kind: 'emptied', repeats: 0 },
  ]);
  expect(logged[0]?.['msg']).toMatch(
    /^Redis was emptied: its keys were deleted, .*; docs\/runbook\.md#redis-lost-data/,
  );
  const page = await registry.metrics();
  for (const of of ['queue', 'limiter']) {
    expect(page).toContain(`pushpacer_redis_losses_total{redis="${of}",kind="emptied"} 1`);
    expect(page).toContain(`pushpacer_redis_losses_total{redis="${of}",kind="older"} 0`);
  }
  await forgetLosses(redis, prefix);
  expect(await noted()).toEqual([]);
});

it('a policy other than noeviction is logged once, and told as long as it is', async () => {
  const { limiterAdmin, logged, watch } = await openWatch();
  expect(watch.evicting()).toEqual([]);
  await limiterAdmin.config('SET', 'maxmemory-policy', 'allkeys-lru');
  await waitFor(() => expect(watch.evicting()).toEqual([{ redis: 'limiter', policy: 'allkeys-lru' }]));
  await limiterAdmin.config('SET', 'maxmemory-policy', 'noeviction');
  await waitFor(() => expect(watch.evicting()).toEqual([]));
  expect(logged).toMatchObject([{ level: 'warn', policy: 'allkeys-lru' }]);
});

it('what was noted is told for a day, the last first; what another version wrote is left out', async () => {
  const { redis, prefix, noted } = await openWatch();
  const now = Date.now();
  const server = { runId: 'a', isSame: false };
  const losses: readonly NotedLoss[] = [
    { redis: 'queue', kind: 'emptied', at: now - 2 * HOUR, server },
    { redis: 'queue', kind: 'older', at: now - HOUR, server, from: now - 4 * HOUR, to: now - 2 * HOUR },
    { redis: 'limiter', kind: 'evicted', at: now - 1_000, server, evicted: 1416, since: now - 3 * HOUR },
    { redis: 'limiter', kind: 'emptied', at: now - 25 * HOUR, server },
  ];
  for (const loss of losses) await noteLoss(redis, prefix, loss);
  await redis.hset(`${prefix}:losses`, 'x', '{"kind":"moved"}', 'y', 'none');
  const told = await noted();
  expect(told).toEqual([losses[2], losses[1], losses[0]]);
  expect(told.map((loss) => lossText(loss, now))).toEqual([
    "the limiter's Redis evicted 1416 keys within 3h, the last 1s ago: slots, limits and blocks of recipients may be lost",
    'Redis came back with an older state, 1h ago: the 2h before are lost',
    'Redis came back empty, or another one is there, 2h ago: what waited, dead letters and slots are lost',
  ]);
});
