import { createServer } from 'node:net';
import { Queue } from 'bullmq';
import { expect, onTestFinished, test } from 'vitest';
import { homeOf, readLayout, type Layout } from '../../../src/queue/shards/layout.ts';
import { layoutKey, QUEUE, shardPrefixes } from '../../../src/queue/names.ts';
import { readWorkers } from '../../../src/queue/workers.ts';
import { portOf } from '../../support/listen.ts';
import { makeNotification } from '../../support/push.ts';
import { connectRedis } from '../../support/redis.ts';
import { startProcess } from '../../support/process.ts';
import { openWorkerBench } from '../../support/worker.ts';

const PATIENT = { timeout: 60_000, interval: 100 };

async function open() {
  const bench = await openWorkerBench();
  const redis = connectRedis();
  const write = (layout: Omit<Layout, 'version'> & { readonly version: number }) =>
    redis.set(layoutKey(bench.prefix), JSON.stringify(layout));
  const add = (prefix: string, id: string) => {
    const queue = new Queue(QUEUE, { connection: redis, prefix });
    onTestFinished(() => queue.close());
    return queue.add('push', makeNotification({ id, recipientId: 'teacher-42' }), { jobId: id, priority: 10 });
  };
  const stateAt = async (prefix: string, id: string): Promise<string> => {
    const queue = new Queue(QUEUE, { connection: redis, prefix, skipMetasUpdate: true });
    const state = await queue.getJobState(id);
    await queue.close();
    return state;
  };
  return { ...bench, redis, write, add, stateAt };
}

test('a worker makes the record of a new queue, warns of another number, and follows a change without a restart', async () => {
  const { prefix, redis, startWorker, write, add, stateAt } = await open();
  const worker = await startWorker({ QUEUE_SHARDS: '2' });
  const two = shardPrefixes(prefix, 2);
  expect(await readLayout(redis, prefix)).toEqual({ version: 1, phase: 'steady', prefixes: two, former: [[prefix]] });
  const other = await startWorker({ QUEUE_SHARDS: '3' });
  expect(await other.waitForLine(/QUEUE_SHARDS is not the number/)).toMatch(/"QUEUE_SHARDS":3,"shards":2/);
  expect(await other.waitForLine(/"msg":"ready"/)).toMatch(/"shards":2,/);
  expect(worker.stdout()).not.toContain('QUEUE_SHARDS is not');

  const three = shardPrefixes(prefix, 3);
  await write({ version: 2, phase: 'steady', prefixes: three, former: [two] });
  for (const each of [worker, other]) {
    await each.waitForLine(/the queues have changed/);
    const ready = await each.waitForLine(/ready: it takes jobs of the queues that there are now/, 60_000);
    expect(ready).toMatch(/"shards":3,/);
    expect((await fetch(`${each.url}/readyz`)).status).toBe(200); // at the same port
  }
  const home = homeOf('teacher-42', { prefixes: three });
  await add(home, 'one');
  await expect.poll(() => stateAt(home, 'one'), PATIENT).toBe('completed');
}, 180_000);

test('what appears in a former queue is moved and delivered, and a worker says so', async () => {
  const { prefix, startWorker, write, add, stateAt } = await open();
  const two = shardPrefixes(prefix, 2);
  await write({ version: 4, phase: 'steady', prefixes: two, former: [[prefix]] });
  const worker = await startWorker();
  await add(prefix, 'late');
  await expect.poll(() => stateAt(homeOf('teacher-42', { prefixes: two }), 'late'), PATIENT).toBe('completed');
  expect(await worker.waitForLine(/notifications of former queues were moved/)).toMatch(/"moved":1/);
}, 120_000);

test('a change whose command was killed while it moved is ended by the workers', async () => {
  const { prefix, redis, startWorker, write, add, stateAt } = await open();
  const two = shardPrefixes(prefix, 2);
  await add(prefix, 'before');
  await write({ version: 3, phase: 'move', prefixes: two, former: [[prefix]] });
  const worker = await startWorker();
  await worker.waitForLine(/the reshard is done/, 60_000);
  expect(await readLayout(redis, prefix)).toEqual({ version: 4, phase: 'steady', prefixes: two, former: [[prefix]] });
  await expect.poll(() => stateAt(homeOf('teacher-42', { prefixes: two }), 'before'), PATIENT).toBe('completed');
  for (const key of [`${prefix}:moving`, ...two.map((of) => `${of}:moved`)]) expect(await redis.exists(key)).toBe(0);
}, 120_000);

/** An endpoint that takes connections and says nothing, as behind a firewall: a start waits 5 s for it. */
async function openSilentEndpoint(): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    onTestFinished(() => void socket.destroy());
  });
  return `https://127.0.0.1:${await portOf(server)}`;
}

test('a worker follows a change that comes while it starts, and one that comes while it is composed anew', async () => {
  const { prefix, redis, env, write } = await open();
  const [two, three, four] = [2, 3, 4].map((shards) => shardPrefixes(prefix, shards)) as [string[], string[], string[]];
  await write({ version: 1, phase: 'steady', prefixes: two, former: [] });
  const worker = startProcess({
    args: ['workers/notifications.ts'],
    env: { ...env, APNS_ENDPOINT: await openSilentEndpoint() },
  });
  // It says so when it has read the record, and then waits for APNs.
  await worker.waitForLine(/"shards":2,.*QUEUE_SHARDS is not the number/, 60_000);
  await write({ version: 2, phase: 'steady', prefixes: three, former: [two] });
  await worker.waitForLine(/"shards":3,.*QUEUE_SHARDS is not the number/, 60_000);
  await write({ version: 3, phase: 'steady', prefixes: four, former: [three, two] });
  await worker.waitForLine(/"shards":4,.*QUEUE_SHARDS is not the number/, 60_000);
  const seen = async () => (await readWorkers(redis, prefix)).workers.map(({ layout }) => layout);
  await expect.poll(seen, PATIENT).toEqual([3]);
  worker.kill('SIGTERM');
  expect((await worker.waitForExit()).code).toBe(0);
}, 180_000);
