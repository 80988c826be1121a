import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { describe, expect, it, onTestFinished } from 'vitest';
import { loadConfig } from '../../../src/config/config.ts';
import { createLog } from '../../../src/observe/log.ts';
import { QUEUE } from '../../../src/queue/names.ts';
import { NO_LATENCY } from '../../../sandbox/loopback/timing.ts';
import { startReplica } from '../../../workers/replica.ts';
import { eventually, PATIENCE } from '../../support/fault-bench.ts';
import { ownRedis } from '../../support/own-redis.ts';
import { openSandbox } from '../../support/providers.ts';
import { makeNotification } from '../../support/push.ts';
import { openRedisProxy, type RedisProxy } from '../../support/redis-proxy.ts';
import { connectRedis, testPrefix } from '../../support/redis.ts';

const BOUND_MS = 3_000;

/** A replica behind a relay, which has delivered a notification. */
async function open(boundMs = BOUND_MS) {
  const redis = await ownRedis();
  const proxy: RedisProxy = await openRedisProxy(Number(new URL(redis.url).port));
  const sandbox = await openSandbox({ latency: NO_LATENCY });
  const prefix = testPrefix();
  const queue = new Queue(QUEUE, { connection: connectRedis(redis.url), prefix });
  onTestFinished(() => queue.close());
  const env = { ...sandbox.env(), REDIS_URL: proxy.url, QUEUE_PREFIX: prefix, METRICS_PORT: '0', LIMIT_MIN_GAP: '0' };
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const { signal } = new AbortController();
  const replica = await startReplica(loadConfig(env), log, { env, signal, wedgedAfterMs: boundMs });
  onTestFinished(() => replica.stop());
  const { url = '' } = replica;
  const add = () => queue.add('push', makeNotification(), { priority: 10 });
  const delivered = (count: number) =>
    eventually(async () => expect(await queue.getJobCountByTypes('completed')).toBe(count));
  const health = async () => {
    const response = await fetch(`${url}/healthz`);
    return { status: response.status, body: await response.text() };
  };
  await add();
  await delivered(1);
  return { proxy, queue, url, lines, add, delivered, health };
}

/** Every status that `/healthz` answered within so many milliseconds. */
async function statuses(health: () => Promise<{ readonly status: number }>, forMs: number): Promise<Set<number>> {
  const found = new Set<number>();
  for (const end = performance.now() + forMs; performance.now() < end;) {
    found.add((await health()).status);
    await sleep(50);
  }
  return found;
}

describe('a worker whose blocking connection is silent, and cannot be opened anew', PATIENCE, () => {
  it('says so, and no longer when it takes jobs again', async () => {
    const { proxy, url, lines, add, delivered, health } = await open();
    expect(await health()).toEqual({ status: 200, body: 'ok\n' });
    proxy.silenceBlocking(true);
    await add();
    await eventually(async () => expect((await health()).status).toBe(503));
    const said = JSON.parse((await health()).body) as Record<string, unknown>;
    expect(said).toMatchObject({ ok: false, reason: 'wedged' });
    expect(said['forMs']).toBeGreaterThanOrEqual(BOUND_MS);
    expect(said['oldestDueMs']).toBeGreaterThanOrEqual(BOUND_MS);
    expect(await (await fetch(`${url}/readyz`)).json()).toMatchObject({ redis: true });
    expect(lines.filter((line) => line.includes('no job is taken'))).toHaveLength(1);

    proxy.pass();
    await delivered(2);
    expect(await health()).toEqual({ status: 200, body: 'ok\n' });
    await eventually(() => expect(lines.join('')).toContain('jobs are asked for again'));
  });

  it('says nothing while nothing is due, or the queue is paused', async () => {
    const { proxy, queue, add, health } = await open();
    proxy.silenceBlocking(true);
    expect(await statuses(health, 3 * BOUND_MS)).toEqual(new Set([200]));
    await queue.pause();
    await add();
    expect(await statuses(health, 3 * BOUND_MS)).toEqual(new Set([200]));
    await queue.resume();
    await eventually(async () => expect((await health()).status).toBe(503));
  });
});

describe('a worker is not called wedged', PATIENCE, () => {
  it('while Redis gives no answer at all, nor right after that', async () => {
    const { proxy, add, delivered, health } = await open();
    await add();
    proxy.silence();
    await proxy.refuse();
    await add();
    expect(await statuses(health, 3 * BOUND_MS)).toEqual(new Set([200]));
    await proxy.admit();
    const after = statuses(health, 2 * BOUND_MS);
    await delivered(3);
    expect(await after).toEqual(new Set([200]));
  });

  it('if its blocking connection goes silent but a new one can be had: it takes jobs again by itself', async () => {
    const { proxy, add, delivered, health } = await open(60_000);
    proxy.silenceBlocking(false);
    await add();
    await delivered(2);
    expect((await health()).status).toBe(200);
  });
});
