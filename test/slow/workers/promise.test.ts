import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedRedis, type EmbeddedRedisOptions } from '../../../sandbox/redis/embedded-redis.ts';
import { main } from '../../../scripts/status.ts';
import { DEAD_LETTERS, lossesKey, stampKeys, QUEUE } from '../../../src/queue/names.ts';
import type { SeenWorker } from '../../../src/queue/workers.ts';
import { deadLetter } from '../../dead-letters/letters.ts';
import { notification, present } from '../../queue/support.ts';
import { clusterEnv, connectCluster, testCluster } from '../../support/cluster.ts';
import { runMain } from '../../support/command.ts';
import { connectRedis, queueEnv } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { waitFor } from '../../support/wait.ts';
import { openWorkerBench } from '../../support/worker.ts';

/** What `status` promises: it says ALL IS WELL only if it is, and says it again when it is again. `--check` says it to a program. */

const PREFIX = '{promise}';
const HOUR = 3_600_000;

interface Shown {
  readonly ok: boolean;
  readonly wrong: readonly { readonly kind: string; readonly text: string }[];
  readonly workers: readonly SeenWorker[];
}

type Env = Readonly<Record<string, string | undefined>>;

/** One look, after which the exit code of `--check` must be that of what was found. */
async function look(env: Env, ...args: string[]): Promise<Shown> {
  const { code, stdout, stderr } = await runMain(main, [...args, '--check', '--json'], { ...queueEnv(PREFIX), ...env });
  expect(stderr).toBe('');
  const shown = JSON.parse(stdout) as Shown;
  expect({ code, ok: shown.ok }).toEqual(shown.wrong.length === 0 ? { code: 0, ok: true } : { code: 1, ok: false });
  return shown;
}

/** Looks until these kinds are what is wrong: a worker looks at Redis every 10 s, and writes its line every 5 s. */
function untilWrong(env: Env, kinds: readonly string[], timeout = 30_000): Promise<Shown> {
  return vi.waitFor(
    async () => {
      const shown = await look(env);
      expect(shown.wrong.map(({ kind }) => kind)).toEqual(kinds);
      return shown;
    },
    { timeout, interval: 250 },
  );
}

async function server(options: EmbeddedRedisOptions = {}) {
  const redis = await startEmbeddedRedis(options);
  onTestFinished(() => redis.close());
  return redis;
}

/** A worker at a Redis of its own, where 5 notifications wait for an hour and 2 are dead letters. */
async function openLoaded(more: Readonly<Record<string, string>> = {}) {
  const redis = await server();
  const bench = await openReplicaBench();
  const env = { REDIS_URL: redis.url, QUEUE_PREFIX: PREFIX, ...more };
  const start = () => bench.startHere({ METRICS_PORT: '0', ...env });
  const replica = await start();
  await load(connectRedis(redis.url));
  return { redis, bench, env, replica, start };
}

async function load(connection: Redis): Promise<void> {
  connection.on('error', () => undefined); // it is closed on purpose
  const queue = new Queue(QUEUE, { connection, prefix: PREFIX });
  const deadQueue = new Queue(DEAD_LETTERS, { connection, prefix: PREFIX });
  const sendAfter = Date.now() + HOUR;
  for (let at = 0; at < 5; at++) {
    const id = `later-${at}`;
    await queue.add('push', notification({ id, sendAfter }), { jobId: id, priority: 10, delay: HOUR });
  }
  for (const id of ['a', 'b'])
    await deadQueue.add('push', deadLetter(id, { deadAt: Date.now() - 2 * HOUR }), { jobId: id });
  await queue.close();
  await deadQueue.close();
}

const page = async (url: string | undefined) => (await fetch(`${present(url)}/metrics`)).text();

test('a Redis that was emptied is wrong until it is acknowledged', async () => {
  const { redis, bench, env, replica, start } = await openLoaded();
  expect(await look(env)).toMatchObject({ workersAlive: 1, waiting: { of: 5 }, deadLetters: { total: 2 } });
  expect(await page(replica.url)).toMatch(/^pushpacer_redis_losses_total\{redis="queue",kind="emptied"\} 0$/m);
  await redis.close();
  await server({ port: redis.port });
  const { wrong } = await untilWrong(env, ['lost']);
  expect(wrong[0]?.text).toMatch(
    /^Redis came back empty, or another one is there, .* ago: what waited, dead letters and slots are lost; /,
  );
  expect(wrong[0]?.text).toMatch(/; when that is done: .*pushpacer status --acknowledge$/);
  await bench.line(/"kind":"emptied"/);
  expect(await page(replica.url)).toMatch(/^pushpacer_redis_losses_total\{redis="queue",kind="emptied"\} 1$/m);

  // What was noticed outlives the worker.
  await replica.stop();
  const { stdout } = await runMain(main, [], { ...queueEnv(PREFIX), ...env });
  expect(stdout).toMatch(/\nWRONG {2}no worker is alive: .*\n +Redis came back empty/);
  await start();
  await untilWrong(env, ['lost']);
  const ttl = await connectRedis(redis.url).pttl(lossesKey(PREFIX));
  expect(ttl).toBeGreaterThan(23 * HOUR);
  expect(ttl).toBeLessThanOrEqual(24 * HOUR);
  expect(await look(env, '--acknowledge')).toMatchObject({ ok: true, losses: [] });
  expect(bench.lines.filter((each) => each.includes('"kind":"emptied"'))).toHaveLength(1);
});

const cluster = testCluster({ replicas: 0 });

test('a master of a cluster that was emptied alone is wrong, and said once', async () => {
  const bench = await openReplicaBench();
  const env = clusterEnv(cluster, PREFIX);
  await bench.startHere(env);
  const connection = connectCluster(cluster);
  await waitFor(async () => expect(await connection.exists(present(stampKeys(PREFIX, true).at(-1)))).toBe(1));
  await vi.waitFor(async () => expect(await look(env)).toMatchObject({ ok: true, workersAlive: 1 }));
  const masters = await Promise.all(
    connection.nodes('master').map(async (node) => ({ node, keys: await node.keys('*') })),
  );
  const other = present(masters.find(({ keys }) => keys.length > 0 && !keys.some((key) => key.startsWith(PREFIX))));
  expect(other.keys.every((key) => key.endsWith(':stamp'))).toBe(true);
  await other.node.flushall();
  const { wrong } = await untilWrong(env, ['lost']);
  expect(wrong).toHaveLength(1);
  expect(wrong[0]?.text).toMatch(/^Redis was emptied/);
  expect(bench.lines.filter((each) => each.includes('"kind":"emptied"'))).toHaveLength(1);
});

test('a killed worker is wrong until others have its jobs, and well after that', async () => {
  const { startWorker, prefix, queue, sandbox } = await openWorkerBench();
  const env = queueEnv(prefix);
  const killed = await startWorker();
  sandbox.setAnswers([{ platform: 'apns', answer: 'hang' }]);
  const ids = ['one', 'two', 'three'];
  for (const id of ids) await queue.add('push', notification({ id, recipientId: id }), { jobId: id, priority: 10 });
  await waitFor(async () => expect(await queue.getActiveCount()).toBe(3));
  const living = await startWorker();
  expect(await look(env)).toMatchObject({ workersAlive: 2, ok: true });
  killed.kill('SIGKILL');
  sandbox.setAnswers([]);
  const { wrong } = await untilWrong(env, ['worker-silent']);
  expect(wrong[0]?.text).toMatch(/^1 worker is not seen, so killed or frozen; others take the jobs: /);
  const shown = await untilWrong(env, [], 40_000);
  expect(await queue.getJobCountByTypes('active', 'prioritized', 'waiting')).toBe(0); // others had them before
  const silent = present(shown.workers.find(({ pid }) => pid === killed.pid));
  expect(silent.silentMs).toBeLessThan(42_000);
  expect(await queue.getCompletedCount()).toBe(3);
  living.kill('SIGTERM');
  await living.waitForExit();
}, 120_000);

test('--check and --acknowledge are for the whole, and not for a live look', async () => {
  const prefix = '{none}';
  for (const args of [
    ['id', '--check'],
    ['id', '--acknowledge'],
    ['--watch', '--check'],
    ['--watch', '--acknowledge'],
  ]) {
    const { code, stdout, stderr } = await runMain(main, args, queueEnv(prefix));
    expect({ args, code, stdout }).toEqual({ args, code: 2, stdout: '' });
    expect(stderr).toMatch(/--(check|acknowledge|watch): expected no .*, found one/);
  }
  // Without the flag the exit code is 0, as it always was.
  expect((await runMain(main, [], queueEnv(prefix))).code).toBe(0);
});
