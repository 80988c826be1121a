import { stat, truncate } from 'node:fs/promises';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import type { EmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import type { Arrival } from '../../../sandbox/judge.ts';
import { createRedisLimiter } from '../../../src/limiter/redis/redis-limiter.ts';
import { QUEUE } from '../../../src/queue/names.ts';
import { DEFAULT_PREFIX } from '../../../src/redis/target.ts';
import { eventually, KEPT, openFaultBench, PATIENCE, type FaultBench } from '../../support/fault-bench.ts';
import { ownRedis } from '../../support/own-redis.ts';
import { startProcess, type TestProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';
import { connectRedis } from '../../support/redis.ts';
import { runCommands, runSnippet } from '../../support/snippet.ts';

const PAGE = 'docs/backup.md';
/** Longer than any Redis is away here, so that no job runs again because of that; short, since the copy has job locks too. */
const LOCKS = { LOCK_DURATION: '8s' };
/** The append-only file is rewritten all the time, so a copy that did not stop the rewrites would lack files now and then. */
const REWRITING = ['--auto-aof-rewrite-min-size', '1kb', '--auto-aof-rewrite-percentage', '5'];
/** Redis waits 5 s for more replicas before it sends a snapshot; by then the load would be over. */
const AT_ONCE = ['--repl-diskless-sync-delay', '0'];
/** 10 for each recipient: the last one of each is sent after four seconds. */
const [BEFORE, RECIPIENTS] = [160, 16];
const MOST_DURING = 200;
/** Of the rule in test/support/fault-bench.ts. */
const MAX_IN_WINDOW = 6;

interface Load {
  readonly redis: EmbeddedRedis;
  readonly dir: string;
  readonly connection: Redis;
  readonly workers: readonly TestProcess[];
  readonly bench: FaultBench;
}

/** Two workers that are under way with what was added, at a Redis with an append-only file. */
async function openLoad(extraArgs: readonly string[], count = BEFORE): Promise<Load> {
  const dir = await temporaryFolder();
  const redis = await ownRedis({ dir, appendonly: true, extraArgs });
  const connection = connectRedis(redis.url);
  const env = { REDIS_URL: redis.url, ...LOCKS };
  const bench = await openFaultBench({ connection, env, prefix: DEFAULT_PREFIX });
  const workers = await Promise.all([bench.startWorker(), bench.startWorker()]);
  await bench.add(count, RECIPIENTS);
  await bench.delivered(30);
  return { redis, dir, connection, workers, bench };
}

/** Enqueues one after the other until this has ended. */
async function addUntil(bench: FaultBench, end: Promise<unknown>): Promise<void> {
  const over = new AbortController();
  const stop = () => {
    over.abort();
  };
  end.then(stop, stop);
  for (let added = 0; !over.signal.aborted && added < MOST_DURING; added++) {
    await bench.add(1, RECIPIENTS);
    await sleep(50);
  }
}

function queueAt(connection: Redis): Queue {
  const queue = new Queue(QUEUE, { connection, prefix: DEFAULT_PREFIX });
  onTestFinished(() => queue.close());
  return queue;
}

const STATES = ['completed', 'active', 'prioritized', 'delayed', 'waiting', 'failed'] as const;

async function idsIn(queue: Queue, states: readonly (typeof STATES)[number][] = STATES): Promise<Set<string>> {
  return new Set((await queue.getJobs([...states])).map(({ id = '' }) => id));
}

const idsOf = (arrivals: readonly Arrival[]) => new Set(arrivals.map(({ notificationId }) => notificationId));

/** Which arrivals came after all of these. */
function since(bench: FaultBench, earlier: readonly Arrival[]): Arrival[] {
  const lastAt = Math.max(...earlier.map(({ at }) => at));
  return bench.arrivals().filter(({ at }) => at > lastAt);
}

it.each(['files', 'snapshot'] as const)(
  'a copy that was made under load (%s) has all that was there, and only what had not ended there is sent again',
  { timeout: 180_000 },
  async (way) => {
    const { redis, dir, workers, bench } = await openLoad(['--appendfsync', 'everysec', ...REWRITING, ...AT_ONCE]);
    const endedBefore = await idsIn(bench.queue, ['completed']);
    const folder = await temporaryFolder();
    const backup = way === 'files' ? join(folder, 'copy') : folder;
    const made = runCommands(PAGE, `backup-${way}`, { REDIS_URL: redis.url, BACKUP: backup });
    await Promise.all([made, addUntil(bench, made)]);
    await bench.add(RECIPIENTS, RECIPIENTS); // too late for the copy

    // Redis is killed, and starts again on its own file.
    process.kill(redis.pid, 'SIGKILL');
    await redis.ended;
    await ownRedis({ dir, appendonly: true, port: redis.port, extraArgs: REWRITING });
    await bench.completed();
    expect(bench.verdict()).toMatchObject(KEPT);
    await stopped(workers);
    const firstLife = bench.arrivals();

    // Another one starts on the copy.
    const data = join(folder, 'data');
    await runCommands(PAGE, `restore-${way}`, { BACKUP: backup, DATA: data });
    const restored = await ownRedis({ dir: data, appendonly: way === 'files' });
    if (way === 'snapshot') await runCommands(PAGE, 'restore-snapshot-aof', { REDIS_URL: restored.url });
    const queue = queueAt(connectRedis(restored.url));
    const [copied, ended, inHand] = [
      await idsIn(queue),
      await idsIn(queue, ['completed']),
      await idsIn(queue, ['active']),
    ];
    const first = Array.from({ length: BEFORE }, (_, index) => `fault-${index}`);
    expect(first.filter((id) => !copied.has(id))).toEqual([]);
    expect([...endedBefore].filter((id) => !ended.has(id))).toEqual([]);
    const last = [...idsOf(firstLife)].filter(
      (id) => Number(id.slice('fault-'.length)) >= firstLife.length - RECIPIENTS,
    );
    expect(last).toHaveLength(RECIPIENTS);
    expect(last.filter((id) => copied.has(id))).toEqual([]);
    expect(ended.size).toBeLessThan(copied.size - 20); // else there was no load
    const status = startProcess({
      args: ['scripts/status.ts', '--json'],
      env: { ...bench.env, REDIS_URL: restored.url },
    });
    const { code, stdout } = await status.waitForExit();
    expect({ code, ...JSON.parse(stdout) }).toMatchObject({
      code: 0,
      jobs: { completed: ended.size },
    });

    if (way === 'snapshot') {
      const log = workers.flatMap((worker) => worker.stdout().split('\n'));
      const input = log.filter((line) => line.includes('"outcome":"delivered"')).join('\n');
      const { code: end, stdout: said } = await runSnippet(PAGE, 'cancel-delivered', {
        env: { REDIS_URL: restored.url },
        input,
      });
      expect(end).toBe(0);
      expect(said).toMatch(/^canceled \d+, too late for \d+\n$/);
    }
    const env = { REDIS_URL: restored.url };
    await Promise.all([bench.startWorker(env), bench.startWorker(env)]);
    await eventually(async () => {
      expect(await queue.getJobCounts(...STATES)).toMatchObject({ completed: copied.size });
    });

    const again = since(bench, firstLife);
    expect(bench.verdict(again)).toMatchObject(KEPT);
    const expected = [...copied].filter((id) => !ended.has(id));
    if (way === 'files') expect([...idsOf(again)].sort()).toEqual(expected.sort());
    else expect([...idsOf(again)].filter((id) => !inHand.has(id))).toEqual([]);
  },
);

async function stopped(workers: readonly TestProcess[]): Promise<void> {
  for (const worker of workers) worker.kill('SIGTERM');
  await Promise.all(workers.map((worker) => worker.waitForExit()));
}

it(
  'a machine that dies with the last second of the file loses what came in it, and sends only what it had not noted',
  { timeout: 120_000 },
  async () => {
    const { redis, dir, connection, bench } = await openLoad(['--appendfsync', 'everysec']);
    const [file = ''] = globSync(join(dir, 'appendonlydir', '*.incr.aof'));
    const endedBefore = await idsIn(bench.queue, ['completed']);
    const known = await idsIn(bench.queue);
    const atDisk = await grown(file, 2_000);
    await bench.add(RECIPIENTS, RECIPIENTS); // written, and not on the disk
    await bench.delivered(bench.alerts() + 20);

    process.kill(redis.pid, 'SIGKILL');
    await redis.ended;
    await truncate(file, atDisk - 5); // in the middle of a command
    const firstLife = bench.arrivals();
    await ownRedis({ dir, appendonly: true, port: redis.port });

    await eventually(async () => expect(await bench.queue.getCompletedCount()).toBe(known.size), 80_000);
    expect(await connection.exists(`${DEFAULT_PREFIX}:${QUEUE}:fault-${BEFORE}`)).toBe(0);
    const all = bench.arrivals();
    expect([...known].filter((id) => !idsOf(all).has(id))).toEqual([]);
    const again = since(bench, firstLife).filter(({ notificationId }) => idsOf(firstLife).has(notificationId));
    expect([...idsOf(again)].filter((id) => endedBefore.has(id))).toEqual([]);
    expect(again.length).toBeGreaterThan(0); // else the file had all
    expect(bench.verdict(again).duplicates).toBe(0);
    expect(bench.verdict().maxInWindow).toBeLessThanOrEqual(2 * MAX_IN_WINDOW);
  },
);

/** The size of the file when it has grown by so much. */
async function grown(file: string, by: number): Promise<number> {
  const { size: before } = await stat(file);
  return eventually(async () => {
    const { size } = await stat(file);
    expect(size).toBeGreaterThan(before + by);
    return size;
  });
}

it('workers that move to a replica of their Redis lose nothing and double nothing', PATIENCE, async () => {
  const { redis, workers, bench } = await openLoad(AT_ONCE, 3 * BEFORE);
  const next = await ownRedis({ dir: await temporaryFolder(), appendonly: true });
  const env = { REDIS_URL: redis.url, NEW_URL: next.url, HOST: '127.0.0.1', PORT: String(redis.port) };
  await runCommands(PAGE, 'move-follow', env);
  await stopped(workers);
  await runCommands(PAGE, 'move-change', env);
  expect(bench.alerts()).toBeLessThan(3 * BEFORE); // else there was no load
  const there = queueAt(connectRedis(next.url));
  await Promise.all([bench.startWorker({ REDIS_URL: next.url }), bench.startWorker({ REDIS_URL: next.url })]);
  await eventually(async () => expect(await there.getCompletedCount()).toBe(3 * BEFORE));
  expect(bench.verdict()).toMatchObject(KEPT);
});

it('dead letters of a copy come back into a system that runs, once, as the oldest', PATIENCE, async () => {
  const redis = await ownRedis();
  const bench = await openFaultBench({
    connection: connectRedis(redis.url),
    env: { REDIS_URL: redis.url },
    prefix: DEFAULT_PREFIX,
  });
  const die = async (...ids: string[]) => {
    for (const id of ids) {
      const count = await bench.deadQueue.getWaitingCount();
      await bench.queue.add('push', { id, nothing: 'else' }, { jobId: id, priority: 10 });
      await eventually(async () => expect(await bench.deadQueue.getWaitingCount()).toBe(count + 1));
    }
  };
  const dead = async () => (await bench.deadQueue.getWaiting()).map(({ id }) => id);
  await bench.startWorker();
  await die('bad-1', 'bad-2', 'bad-3');
  const backup = await temporaryFolder();
  await runCommands(PAGE, 'backup-snapshot', { REDIS_URL: redis.url, BACKUP: backup });
  const env = { ...bench.env, REDIS_URL: redis.url };
  for (const id of ['bad-1', 'bad-3']) {
    const args = ['scripts/discard.ts', '--id', id, '--yes'];
    expect(await startProcess({ args, env }).waitForExit()).toMatchObject({ code: 0 });
  }
  await die('bad-4');
  expect(await dead()).toEqual(['bad-2', 'bad-4']);

  const data = join(backup, 'data');
  await runCommands(PAGE, 'restore-snapshot', { BACKUP: backup, DATA: data });
  const copy = await ownRedis({ dir: data });
  const where = { COPY_URL: copy.url, REDIS_URL: redis.url, HOST: '127.0.0.1', PORT: String(redis.port) };
  for (let round = 0; round < 2; round++) {
    await runCommands(PAGE, 'dead-letters', where);
    expect(await dead()).toEqual(['bad-1', 'bad-3', 'bad-2', 'bad-4']);
  }
  const args = ['scripts/dead-letters.ts', '--json'];
  const { stdout } = await startProcess({ args, env }).waitForExit();
  expect(JSON.parse(stdout)).toMatchObject({ total: 4, byReason: { invalid: 4 } });
});

it('a limiter that is restored gives a recipient as many slots again as were sent since the copy, and no more', async () => {
  const policy = { rules: [{ max: 6, perMs: 3_600_000 }], minGapMs: 0 };
  const sent = async (redis: Redis, times: number) => {
    const limiter = createRedisLimiter({ redis, policy });
    const ask = () => limiter.admit({ recipientId: 'teacher-1', id: crypto.randomUUID(), maxWaitMs: 0 });
    const answers = await Promise.all(Array.from({ length: times }, ask));
    return answers.filter(({ kind }) => kind === 'admitted').length;
  };
  const redis = await ownRedis();
  const [connection, backup] = [connectRedis(redis.url), await temporaryFolder()];
  expect(await sent(connection, 2)).toBe(2);
  await runCommands(PAGE, 'backup-snapshot', { REDIS_URL: redis.url, BACKUP: backup });
  expect(await sent(connection, 9)).toBe(4);
  const data = join(backup, 'data');
  await runCommands(PAGE, 'restore-snapshot', { BACKUP: backup, DATA: data });
  const restored = await ownRedis({ dir: data });
  expect(await sent(connectRedis(restored.url), 9)).toBe(4);
});
