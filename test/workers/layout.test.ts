import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { main as recipient } from '../../scripts/recipient.ts';
import { main as reshard } from '../../scripts/reshard.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { createLog } from '../../src/observe/log.ts';
import { readLayout, takeLease, type Layout } from '../../src/queue/shards/layout.ts';
import { layoutKey, shardPrefixes } from '../../src/queue/names.ts';
import type { Connection } from '../../src/redis/connection.ts';
import { watchLayout } from '../../workers/layout.ts';
import { jsonOf, runMain } from '../support/command.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, queueEnv, testPrefix } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';
import { waitFor } from '../support/wait.ts';
import { SLOW, blocked } from '../support/waiting.ts';

type Phase = (one: readonly string[], eight: readonly string[]) => Omit<Layout, 'version'>;

test.each<[string, Phase]>([
  ['prepare', (one, eight) => ({ phase: 'prepare', prefixes: one, next: eight, former: [] })],
  ['move', (one, eight) => ({ phase: 'move', prefixes: eight, former: [one] })],
])('in the phase %s a worker may have as many jobs of a single queue as WORKER_CONCURRENCY says', async (_, of) => {
  const { prefix, queue, sandbox, startHere } = await openReplicaBench();
  const layout: Layout = { version: 2, ...of([prefix], shardPrefixes(prefix, 8)) };
  await connectRedis().set(layoutKey(prefix), JSON.stringify(layout));
  const add = async (recipientId: string) => {
    const notification = makeNotification({ recipientId });
    await queue.add('push', notification, { jobId: notification.id, priority: 10 });
  };
  // A pass that waits for its stream leaves its place. After one delivery the connection is open, so no pass waits for it.
  await add('teacher-of-before');
  await startHere({ WORKER_CONCURRENCY: '6', SHUTDOWN_GRACE: '100ms' });
  await expect.poll(() => sandbox.journal.accepted).toHaveLength(1);
  await expect.poll(() => queue.getActiveCount()).toBe(0);
  sandbox.apns.setDefault({ kind: 'hang' });
  for (let at = 0; at < 9; at += 1) await add(`teacher-${at}`);
  const underWay = () => sandbox.journal.all.length - 1;
  await expect.poll(underWay).toBe(6);
  await sleep(300); // it would send all nine by then
  expect(underWay()).toBe(6);
});

test.each([
  ['alone', false],
  ['after the command, which leaves it there', true],
])('one that stalled in a former queue is logged, and its slot is given back: by a worker %s', async (_, isAfter) => {
  const bench = await openReplicaBench();
  const { prefix, queue, startHere } = bench;
  const before = await startHere(SLOW);
  const [one] = await blocked(bench, [{}]);
  await before.stop();
  const redis = connectRedis();
  await redis.zrem(queue.toKey('delayed'), one.id);
  await redis.hset(queue.toKey(one.id), { failedReason: 'job stalled more than allowable limit' });
  await redis.zadd(queue.toKey('failed'), Date.now(), one.id);
  const layout: Layout = { version: 2, phase: 'steady', prefixes: shardPrefixes(prefix, 2), former: [[prefix]] };
  await redis.set(layoutKey(prefix), JSON.stringify(layout));
  const reserved = async () =>
    (await jsonOf(runMain(recipient, ['show', one.recipientId, '--json'], queueEnv(prefix))))['reserved'];
  expect(await reserved()).toHaveLength(1);
  if (isAfter) {
    expect(await runMain(reshard, ['--to', '2'], queueEnv(prefix))).toMatchObject({ code: 0 });
    expect(await redis.zscore(queue.toKey('failed'), one.id)).not.toBeNull();
  }

  await startHere(SLOW);
  await waitFor(() => expect(bench.lines.join('')).toMatch(/"reason":"stalled".*"dead-lettered"/));
  await expect.poll(reserved).toEqual([]);
});

test('a reshard that is prepared is logged when no command goes on with it, and not while one does', async () => {
  const [redis, prefix, lines] = [connectRedis(), testPrefix(), [] as string[]];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const layout: Layout = {
    version: 2,
    phase: 'prepare',
    prefixes: [prefix],
    next: shardPrefixes(prefix, 2),
    former: [],
  };
  await redis.set(layoutKey(prefix), JSON.stringify(layout));
  const lease = await takeLease(redis, prefix, 600_000);
  const { signal } = new AbortController();
  const parts = { connection: redis, log, onQueuesChanged: undefined, timeoutMs: 1_000, signal, everyMs: 20 };
  const watch = await watchLayout({ queue: { prefix, shards: 1 } }, parts);
  onTestFinished(() => watch.stop());
  const reads = vi.spyOn(redis, 'get');
  await expect.poll(() => reads.mock.calls.length).toBeGreaterThan(5);
  expect(lines.join('')).not.toContain('no command');
  await lease?.release();
  await expect.poll(() => lines.join('')).toContain('no command goes on');
  expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ level: 'warn', from: 1, to: 2 });
});

describe('a record that Redis has lost', () => {
  const open = async () => {
    const [redis, prefix] = [connectRedis(), testPrefix()];
    const known: Layout = { version: 3, phase: 'steady', prefixes: shardPrefixes(prefix, 4), former: [[prefix]] };
    await redis.set(layoutKey(prefix), JSON.stringify(known));
    const log = createLog('silent', { write: () => undefined });
    const { signal } = new AbortController();
    const parts = { connection: redis, log, onQueuesChanged: undefined, timeoutMs: 1_000, signal, everyMs: 20 };
    const watch = await watchLayout({ queue: { prefix, shards: 1 } }, parts);
    onTestFinished(() => watch.stop());
    return { redis, prefix, known, watch, record: () => readLayout(redis, prefix) };
  };

  test('is written again by a worker that knew it', async () => {
    const { redis, prefix, known, record } = await open();
    await redis.del(layoutKey(prefix));
    await expect.poll(record).toEqual(known);
  });

  test('and that another process has written anew has those queues as former ones', async () => {
    const { redis, prefix, known, watch, record } = await open();
    const other = { version: 1, phase: 'steady', prefixes: shardPrefixes(prefix, 2), former: [[prefix]] };
    await redis.set(layoutKey(prefix), JSON.stringify(other));
    const merged = { ...other, version: 2, former: [[prefix], known.prefixes] };
    await expect.poll(record).toEqual(merged);
    await expect.poll(watch.current).toEqual(merged);
  });

  test('has them also in place of its oldest former ones', async () => {
    const { redis, prefix, known, record } = await open();
    const former = Array.from({ length: 8 }, (_, index) => [`${prefix}-${index}`]);
    const other = { version: 1, phase: 'steady', prefixes: shardPrefixes(prefix, 2), former };
    await redis.set(layoutKey(prefix), JSON.stringify(other));
    const kept = [former[0], known.prefixes, [prefix], ...former.slice(1, 6)];
    await expect.poll(record).toEqual({ ...other, version: 2, former: kept });
  });

  test('but was changed by an operator since, is followed as it is', async () => {
    const { redis, prefix, watch, record } = await open();
    const next = { version: 4, phase: 'steady', prefixes: shardPrefixes(prefix, 2), former: [] };
    await redis.set(layoutKey(prefix), JSON.stringify(next));
    await expect.poll(watch.current).toEqual(next);
    expect(await record()).toEqual(next);
  });
});

test.each<[string, () => Promise<Connection>]>([
  [
    'does not answer',
    async () => {
      const redis = await startEmbeddedRedis();
      const connection = connectRedis(redis.url).on('error', () => undefined);
      await connection.ping();
      await redis.close();
      return connection;
    },
  ],
  [
    'says that it cannot now',
    async () => {
      const connection = connectRedis();
      const refused = Object.assign(new Error('CLUSTERDOWN Hash slot not served'), { name: 'ReplyError' });
      vi.spyOn(connection, 'get').mockRejectedValue(refused);
      return Promise.resolve(connection);
    },
  ],
])('a start that is no longer wanted does not wait for the record where Redis %s', async (_, open) => {
  const connection = await open();
  const log = createLog('silent', { write: () => undefined });
  const stopping = new AbortController();
  const parts = { connection, log, onQueuesChanged: undefined, timeoutMs: 25_000, signal: stopping.signal };
  const reading = watchLayout({ queue: { prefix: testPrefix(), shards: 1 } }, parts);
  const began = performance.now();
  stopping.abort();
  await expect(reading).rejects.toBe(stopping.signal.reason);
  expect(performance.now() - began).toBeLessThan(10_000);
});
