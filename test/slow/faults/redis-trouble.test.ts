import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { createProducer, type Producer } from '../../../src/producer/producer.ts';
import type { StatusResult } from '../../../src/operations/status.ts';
import {
  allIsWell,
  eventually,
  openFaultBench,
  openUnderWay,
  page,
  PATIENCE,
  type FaultBench,
  type FaultWorker,
} from '../../support/fault-bench.ts';
import { ownRedis } from '../../support/own-redis.ts';
import { startProcess } from '../../support/process.ts';
import { makeNotification } from '../../support/push.ts';
import { openRedisProxy } from '../../support/redis-proxy.ts';
import { connectRedis } from '../../support/redis.ts';

/** Redis works, but not well: it is full for a moment, read-only after a failover, stands still, or is far away. */

/** How long the first alert may take after the trouble has ended: some seconds, and the rest for a busy machine. */
const BACK_WITHIN_MS = 15_000;

/** Resolves when alerts go out again. */
function goesOn(bench: FaultBench): Promise<void> {
  const before = bench.alerts();
  return eventually(() => expect(bench.alerts()).toBeGreaterThan(before), BACK_WITHIN_MS);
}

function troubleOf(producer: Producer): Promise<unknown> {
  return producer.enqueue(makeNotification()).then(
    () => 'none',
    (error: unknown) => error,
  );
}

/** What workers say above `info`, each text once. */
function complaints(workers: readonly FaultWorker[]): string[] {
  const lines = workers.flatMap((worker) => worker.stdout().split('\n'));
  const said = lines.filter((line) => /"level":"(warn|error|fatal)"/.test(line));
  return [...new Set(said.map((line) => (JSON.parse(line) as { readonly msg: string }).msg))];
}

/** Another program that writes whenever Redis takes it; answers how often it was refused. */
async function fill(redis: Redis, signal: AbortSignal): Promise<number> {
  let refused = 0;
  for (let index = 0; !signal.aborted; index++) {
    const error = await redis.set(`other-${index}`, 'x'.repeat(10_000)).catch((caught: unknown) => caught);
    if (error !== 'OK') refused += 1;
    if (error !== 'OK') await sleep(10);
  }
  return refused;
}

it(
  'a Redis that another program fills goes on by itself once it has room, and nothing is alerted twice',
  PATIENCE,
  async () => {
    const { redis, connection, bench, workers } = await openUnderWay({ add: [120], delivered: 12 });
    await using producer = createProducer({ redisUrl: redis.url, prefix: bench.prefix });

    const used = Number(/^used_memory:(\d+)/m.exec(await connection.info('memory'))?.[1]);
    await connection.config('SET', 'maxmemory', String(used + 3_000_000));
    const room = new AbortController();
    const filling = fill(connection, room.signal);
    onTestFinished(() => room.abort());
    await Promise.any(workers.map((worker) => worker.waitForLine(/OOM/)));
    // At the bound Redis takes a write now and then, when a client's buffer was freed. From here on it does not.
    await connection.config('SET', 'maxmemory', String(used));
    expect(await troubleOf(producer)).toMatchObject({
      ...{ name: 'RedisAwayError', trouble: 'not-now' },
      message: expect.stringMatching(/^Redis cannot now: 127\.0\.0\.1:\d+ \(OOM /) as string,
    });
    const command = startProcess({ args: ['scripts/status.ts', '--json'], env: bench.env });
    const status = JSON.parse((await command.waitForExit()).stdout) as StatusResult;
    expect(status.noWrites).toMatch(/^OOM /);
    await sleep(3_000); // shorter than the locks last
    for (const worker of workers) expect((await page(worker, '/healthz')).status).toBe(200);

    room.abort();
    expect(await filling).toBeGreaterThan(0);
    await connection.config('SET', 'maxmemory', String(4 * used + 100_000_000));
    await bench.add(12);
    await goesOn(bench);
    await allIsWell(bench, workers);
    expect(await troubleOf(producer)).toBe('none');
  },
);

/** How far the stream of writes has come, in bytes. */
function offsetIn(info: string, name: string): number {
  return Number(new RegExp(String.raw`^${name}:(\d+)`, 'm').exec(info)?.[1]);
}

/** For so long after the master's death its replica is read-only. */
const UNPROMOTED_MS = 5_000;

it('a replica that is promoted late is used within seconds after that, and nothing is lost', PATIENCE, async () => {
  const master = await ownRedis();
  const replica = await ownRedis({ extraArgs: ['--replicaof', `127.0.0.1 ${master.port}`] });
  const [atMaster, atReplica] = [connectRedis(master.url), connectRedis(replica.url)];
  atMaster.on('error', () => undefined); // it is killed
  await eventually(async () => expect(await atReplica.info('replication')).toContain('master_link_status:up'));
  const proxy = await openRedisProxy(master.port); // the name that clients know
  const connection = new Redis(proxy.url, { maxRetriesPerRequest: null, retryStrategy: () => 100 });
  onTestFinished(() => connection.disconnect());
  const bench = await openFaultBench({ connection, env: { REDIS_URL: proxy.url } });
  await using producer = createProducer({ redisUrl: proxy.url, prefix: bench.prefix });
  const workers = await Promise.all([bench.startWorker(), bench.startWorker()]);
  await bench.add(36);
  await bench.delivered(12);

  // No more is written until the replica has heard of all: what it had not heard of would be lost.
  await atMaster.call('CLIENT', 'PAUSE', 60_000, 'WRITE');
  await eventually(async () => {
    const written = offsetIn(await atMaster.info('replication'), 'master_repl_offset');
    expect(offsetIn(await atReplica.info('replication'), 'slave_repl_offset')).toBeGreaterThanOrEqual(written);
  });
  proxy.leadTo(replica.port);
  process.kill(master.pid, 'SIGKILL');
  await Promise.all(workers.map((worker) => worker.waitForLine(/READONLY/)));
  await eventually(async () => {
    expect(await troubleOf(producer)).toMatchObject({
      ...{ name: 'RedisAwayError', trouble: 'not-now' },
      message: expect.stringMatching(/^Redis cannot now: 127\.0\.0\.1:\d+ \(READONLY /) as string,
    });
  });
  const before = bench.alerts();
  await sleep(UNPROMOTED_MS);
  expect(bench.alerts()).toBe(before);

  await atReplica.replicaof('NO', 'ONE');
  await goesOn(bench);
  await allIsWell(bench, workers);
});

const STALL_MS = 2_000;
const STALLS = 3;
/** What a worker may say of a Redis that stands still: docs/redis.md. */
const OF_STALLS =
  /^(no connection to Redis: jobs wait|Redis failed a command of the queue|jobs lost their locks|the limiter cannot)/;

it('a Redis that stands still for 2 s again and again loses nothing, and its pages say so', PATIENCE, async () => {
  const { redis, bench, workers } = await openUnderWay({ redis: { appendonly: true }, add: [60], delivered: 12 });
  for (let stall = 0; stall < STALLS; stall++) {
    process.kill(redis.pid, 'SIGSTOP');
    try {
      const standing = sleep(STALL_MS);
      const pages = await Promise.all(workers.map((worker) => page(worker, '/readyz')));
      expect(pages.map(({ status }) => status)).toEqual([503, 503]); // no answer within a second
      await standing;
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await goesOn(bench);
  }
  await allIsWell(bench, workers);
  expect(complaints(workers).filter((text) => !OF_STALLS.test(text))).toEqual([]);
});

/** Asks again and again; answers how long the slowest answer took, in milliseconds. */
async function slowestPing(redis: Redis, signal: AbortSignal): Promise<number> {
  let slowestMs = 0;
  while (!signal.aborted) {
    const askedAt = performance.now();
    await redis.ping();
    slowestMs = Math.max(slowestMs, performance.now() - askedAt);
    await sleep(20);
  }
  return slowestMs;
}

const REWRITES = 3;
/** By then the test fails: a notification is lost. */
const MOST_REWRITES = 200;
/** Enough that a rewrite takes a while. */
const FILLING = 200_000;
const FILL = "for i = 1, ARGV[1] do redis.call('SET', 'filling-' .. i, string.rep('x', 200)) end";

it('rewriting the append-only file under load loses nothing, and nobody has to complain', PATIENCE, async () => {
  const redis = await ownRedis({ appendonly: true, extraArgs: ['--appendfsync', 'always'] });
  const connection = connectRedis(redis.url);
  await connection.eval(FILL, 0, FILLING);
  const bench = await openFaultBench({ connection, env: { REDIS_URL: redis.url } });
  const workers = await Promise.all([bench.startWorker(), bench.startWorker()]);
  await bench.add(60);
  await bench.delivered(6);
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const slowest = slowestPing(connectRedis(redis.url), over.signal);
  slowest.catch(() => undefined); // the test has failed, and its connection is closed
  let added = 60;
  for (let rewrites = 0; rewrites < MOST_REWRITES; rewrites++) {
    if (rewrites >= REWRITES && (await bench.queue.getCompletedCount()) === added) break;
    if (rewrites < REWRITES) {
      await bench.add(12); // alerts go out during each of them, however long they take
      added += 12;
    }
    await connection.bgrewriteaof();
    await eventually(async () => expect(await connection.info('persistence')).toMatch(/aof_rewrite_in_progress:0/));
  }
  expect(await connection.info('persistence')).toContain('aof_last_bgrewrite_status:ok');
  await allIsWell(bench, workers);
  over.abort();
  // A disk that takes a second for a write makes Redis stand still, whether a file is rewritten or not.
  const isDiskSlow = (await slowest) > 1_000;
  expect(complaints(workers).filter((text) => !isDiskSlow || !OF_STALLS.test(text))).toEqual([]);
});

it.each([2, 20])(
  'a Redis that is %d ms away in each direction delivers all, within the limits',
  PATIENCE,
  async (ms) => {
    const redis = await ownRedis();
    const proxy = await openRedisProxy(redis.port);
    const bench = await openFaultBench({ connection: connectRedis(redis.url), env: { REDIS_URL: proxy.url } });
    proxy.delay({ leastMs: ms, mostMs: ms });
    const workers = await Promise.all([bench.startWorker(), bench.startWorker()]);
    await bench.add(60);
    await allIsWell(bench, workers);
    expect(complaints(workers)).toEqual([]);
  },
);
