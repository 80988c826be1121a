import { setTimeout as sleep } from 'node:timers/promises';
import type { Job } from 'bullmq';
import { describe, expect, it } from 'vitest';
import { main as replay } from '../../scripts/replay.ts';
import { main as work } from '../../workers/notifications.ts';
import { tokenOf } from '../../src/notification/device.ts';
import { lockKeyOf } from '../../src/queue/bullmq-internals.ts';
import { PRIORITY } from '../../src/queue/names.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { runMain } from '../support/command.ts';
import { startProcess } from '../support/process.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';
import { openReplicaBench } from '../support/replica.ts';
import { deliver, openRunning } from '../support/waiting.ts';
import { openWorkerBench } from '../support/worker.ts';
import { waitFor } from '../support/wait.ts';

describe('jobs of a plain BullMQ client', () => {
  it('are delivered, with no options at all', async () => {
    const { queue, sandbox, startHere, line } = await openReplicaBench();
    await startHere();
    const notification = makeNotification();
    await queue.add('push', notification);
    await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1));
    expect(sandbox.journal.accepted[0]?.token).toBe(notification.devices.map(tokenOf).join());
    await line(/"outcome":"delivered"/);
    await line(/a job was added without a priority/);
  });

  it('become dead letters where they do not fit, and the worker goes on', async () => {
    const { queue, deadQueue, startHere, sandbox } = await openReplicaBench();
    await startHere();
    await queue.add('push', { id: 'broken', devices: 'none' }, { jobId: 'broken', removeOnFail: true, attempts: 5 });
    await queue.add('push', makeNotification());
    await waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1));
    const [letter] = await deadQueue.getJobs();
    expect(letter?.data).toMatchObject({
      notification: { id: 'broken', devices: 'none' },
      reason: 'invalid',
      attempts: [],
      generation: 0,
    });
    expect((letter?.data as { message: string }).message).toContain(
      'devices: expected an array, found a string of 4 characters',
    );
    await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1));
  });

  it('free their ids an hour after their end, also in a queue in which nothing else ends', async () => {
    const bench = await openRunning();
    const one = makeNotification({ recipientId: 'teacher-7' });
    await deliver(bench, one);
    await connectRedis().zadd(bench.queue.toKey('completed'), Date.now() - 3_700_000, one.id);
    expect((await bench.producer.enqueue(one)).added).toBe(false);
    await bench.startHere(); // a worker looks at its start, and then every minute
    await waitFor(async () => expect((await bench.producer.enqueue(one)).added).toBe(true));
  });

  it('without an id in their data keep that of the job, through a replay too', async () => {
    const { queue, deadQueue, sandbox, prefix, startHere } = await openReplicaBench();
    await startHere();
    const device = makeDevice('fcm');
    sandbox.fcm.script(device.token, [{ kind: 'refuse', status: 403, reason: 'SENDER_ID_MISMATCH' }]);
    const { recipientId, alert } = makeNotification();
    await queue.add('push', { recipientId, alert, devices: [device] }, { jobId: 'by-job', priority: 10 });
    await waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1));
    expect(await runMain(replay, ['--all', '--yes'], queueEnv(prefix))).toMatchObject({ code: 0 });
    await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1));
  });
});

it('a worker that stood still says so in one line, with the jobs that it lost, and without a stack', async () => {
  const { queue, sandbox, startWorker, startHere, lines } = await openReplicaBench();
  // So long that no lock runs out because the machine is busy; locks are renewed every 5 s.
  const limits = { LOCK_DURATION: '20s', LIMIT_MIN_GAP: '2s' };
  const frozen = await startWorker(limits);
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 7_000 }); // the worker is stopped by then
  const all = [1, 2, 3].map((number) => makeNotification({ recipientId: `teacher-${number}` }));
  await queue.addBulk(all.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } })));
  await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(3));
  frozen.kill('SIGSTOP');
  const stoppedAt = performance.now();
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 0 });
  const redis = connectRedis();
  for (const { id } of all) {
    // As after 20 s.
    await redis.del(lockKeyOf(queue, id));
    await redis.sadd(queue.toKey('stalled'), id);
  }
  await startHere(limits);
  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(3));
  await waitFor(() => expect(performance.now() - stoppedAt).toBeGreaterThan(6_000)); // the locks are to be renewed
  frozen.kill('SIGCONT');
  const line = await frozen.waitForLine(/stood still.*3 jobs/);
  const { level, msg, jobs, jobIds, stoodStillMs } = JSON.parse(line) as Record<string, unknown>;
  expect([level, jobs, (jobIds as string[]).toSorted()]).toEqual(['warn', 3, all.map(({ id }) => id).toSorted()]);
  expect(msg).toMatch(/^this process stood still for [\d.]+ s: 3 jobs went to other workers, or will/);
  expect(stoodStillMs).toBeGreaterThan(1_000);
  await sleep(4_000); // its passes have ended, and such lines are gathered for a second
  const texts = frozen
    .stdout()
    .split('\n')
    .filter((text) => /"level":"(warn|error)"/.test(text));
  // Beside the lines of the passes, and of a machine that stood still for seconds.
  expect(texts.filter((text) => !/"outcome"|it lost no job/.test(text))).toEqual([line]);
  expect(frozen.stdout()).not.toContain('"stack"');
  expect(lines.join('')).not.toContain('went to other workers');
});

it('a job that stalled too often is logged and counted as a dead letter', async () => {
  const { queue, deadQueue, startHere, line } = await openReplicaBench();
  const stalled = makeNotification({ category: 'messages', devices: [makeDevice('fcm')] });
  await queue.add('push', stalled, { jobId: stalled.id, priority: 10 });
  const redis = connectRedis();
  // As a worker leaves it that died with it, for the second time.
  await redis.zrem(queue.toKey('prioritized'), stalled.id);
  await redis.rpush(queue.toKey('active'), stalled.id);
  await redis.hset(queue.toKey(stalled.id), 'stc', '1');
  await redis.sadd(queue.toKey('stalled'), stalled.id);
  const { url } = await startHere({ MAX_STALLS: '1', LOCK_DURATION: '1s', METRICS_PORT: '0' });
  await waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(1));
  const text = await line(/"outcome":"dead-lettered"/);
  const facts = { jobId: stalled.id, recipientId: stalled.recipientId, category: 'messages', platform: 'fcm' };
  expect(JSON.parse(text)).toMatchObject({ level: 'warn', ...facts, reason: 'stalled', msg: 'dead-lettered' });
  const metrics = await (await fetch(`${url}/metrics`)).text();
  expect(metrics).toContain('pushpacer_outcomes_total{outcome="dead-lettered",reason="stalled",platform="fcm"} 1');
});

it('new alerts get a share of a worker that cannot send in time what is due, and high ones go before it', async () => {
  const { queue, sandbox, startHere } = await openReplicaBench();
  const all = Array.from({ length: 220 }, (_, at) => makeNotification({ recipientId: `teacher-${at}` }));
  const [due, high, normal] = [all.slice(0, 200), all.slice(200, 205), all.slice(205)];
  const add = async (some: typeof all, priority: number): Promise<Job[]> =>
    queue.addBulk(some.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority } })));
  for (const job of await add(due, PRIORITY.due)) await job.updateProgress({ rule: 'gap', dueAt: Date.now() - 30_000 });
  await add(normal, PRIORITY.normal);
  await add(high, PRIORITY.high);
  await startHere({ WORKER_CONCURRENCY: '2' });
  await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(all.length));
  const arrived = sandbox.journal.accepted.map(({ token }) => token);
  const last = (some: typeof all) =>
    Math.max(...some.map(({ devices }) => arrived.indexOf(devices.map(tokenOf).join())));
  expect(last(high)).toBeLessThan(10);
  expect(last(normal)).toBeLessThan(200); // one pass of five, and a look every 200 ms
  expect(last(due)).toBe(all.length - 1);
}, 90_000);

describe('pages', () => {
  it('show health, readiness and metrics', async () => {
    const { queue, startHere, line } = await openReplicaBench();
    const { url } = await startHere({ METRICS_PORT: '0' });
    await queue.add('push', makeNotification(), { priority: 10 });
    await queue.add('push', makeNotification(), { priority: 10 });
    await line(/"outcome":"delivered"/);
    await line(/"outcome":"requeued"/);
    expect(await (await fetch(`${url}/healthz`)).text()).toBe('ok\n');
    expect(await (await fetch(`${url}/readyz`)).json()).toMatchObject({
      ok: true,
      redis: true,
      consuming: true,
    });
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toContain('pushpacer_outcomes_total{outcome="delivered",reason="",platform="apns"} 1');
    expect(metrics).toContain(
      'pushpacer_outcomes_total{outcome="dead-lettered",reason="bad-token",platform="apns,fcm"} 0',
    );
    expect(metrics).toContain('pushpacer_enqueue_to_accepted_seconds_count{platform="apns"} 1');
    expect(metrics).toContain('pushpacer_requeues_total{rule="gap"} 1');
    expect(metrics).toContain('pushpacer_wait_seconds_count 1');
    expect(metrics).toContain('pushpacer_queue_jobs{state="delayed"} 1');
    expect(metrics).toMatch(/^pushpacer_workers_alive 1$/m);
    expect(metrics).toMatch(/^pushpacer_due_oldest_age_seconds \d/m);
    expect(Number(/^pushpacer_waiting_oldest_age_seconds (.*)$/m.exec(metrics)?.[1])).toBeGreaterThan(0);
    expect(metrics).toMatch(/pushpacer_provider_seconds_count\{platform="apns",meaning="accepted"\} 1/);
    expect((await fetch(`${url}/elsewhere`)).status).toBe(404);
  });

  it('answer also while Redis does not', async () => {
    const { env } = await openWorkerBench();
    const redis = await startEmbeddedRedis();
    try {
      const own = { REDIS_URL: redis.url };
      const worker = startProcess({ args: ['workers/notifications.ts'], env: { ...env, ...own } });
      const { metrics: url } = JSON.parse(await worker.waitForLine(/"msg":"ready"/)) as { metrics: string };
      await redis.close();
      await worker.waitForLine(/no connection to Redis/);
      expect((await fetch(`${url}/readyz`)).status).toBe(503);
      const text = await (await fetch(`${url}/metrics`)).text();
      expect(text).toContain('pushpacer_outcomes_total');
      expect(text).not.toContain('pushpacer_queue_jobs{');
      expect(text).not.toMatch(/^pushpacer_(workers_alive|due_oldest_age_seconds) \d/m);
    } finally {
      await redis.close();
    }
  });

  it('move to a free port where another replica has theirs', async () => {
    const { startHere, line } = await openReplicaBench();
    const first = await startHere({ METRICS_PORT: '0' });
    const second = await startHere({ METRICS_PORT: new URL(first.url ?? '').port });
    expect(second.url).not.toBe(first.url);
    await line(/the metrics port is in use/);
    expect((await fetch(`${second.url}/readyz`)).status).toBe(200);
  });
});

describe('SIGTERM', () => {
  it('lets what is in flight end, and exits with 0', async () => {
    const { queue, startWorker, sandbox } = await openWorkerBench();
    const worker = await startWorker();
    sandbox.apns.setDefault({ kind: 'accept', delayMs: 800 });
    const { id = '' } = await queue.add('push', makeNotification());
    await waitFor(async () => expect(await queue.getActiveCount()).toBe(1));
    // The line "ready" has the ids that the job locks have.
    const lock = await connectRedis().get(lockKeyOf(queue, id));
    const { workerIds } = JSON.parse(await worker.waitForLine(/"msg":"ready"/)) as { workerIds: string[] };
    expect(workerIds).toEqual([lock?.split(':')[0]]);
    worker.kill('SIGTERM');
    const { code, stdout } = await worker.waitForExit();
    expect(code).toBe(0);
    expect(stdout).toContain('"outcome":"delivered"');
    expect(await queue.getCompletedCount()).toBe(1);
  });

  it('ends a worker that is still waiting for its Redis', async () => {
    const { env } = await openWorkerBench();
    const worker = startProcess({
      args: ['workers/notifications.ts'],
      env: { ...env, REDIS_URL: 'redis://127.0.0.1:1' },
    });
    await worker.waitForLine(/no connection to Redis/);
    worker.kill('SIGTERM');
    const { code, stdout } = await worker.waitForExit(20_000);
    expect({ code, isLogged: stdout.includes('stopped before it was ready') }).toEqual({ code: 0, isLogged: true });
  });

  it('gives back what outlasts the grace period, at once', async () => {
    const { queue, startWorker, sandbox } = await openWorkerBench();
    const worker = await startWorker({ SHUTDOWN_GRACE: '300ms', BACKOFF_BASE: '1h', BACKOFF_MAX: '1h' });
    const device = makeDevice();
    sandbox.apns.script(device.token, [{ kind: 'hang' }]);
    await queue.add('push', makeNotification({ devices: [device] }));
    await waitFor(() => expect(sandbox.journal.all.map(({ token }) => token)).toContain(device.token));
    worker.kill('SIGTERM');
    expect((await worker.waitForExit()).code).toBe(0);
    expect(await queue.getActiveCount()).toBe(0);
    expect(await queue.getDelayedCount()).toBe(1);
  });
});

describe('bad input', () => {
  it('ends a start with every fault of the environment', async () => {
    const { code, stderr } = await runMain(work, [], { LIMIT_RULES: 'ten', ATTEMPTS: '0' });
    expect(code).toBe(1);
    expect(stderr).toContain('LIMIT_RULES: expected rules as max/per');
    expect(stderr).toContain('ATTEMPTS: expected an integer from 1 to 1000, found "0"');
  });

  it('ends a worker whose pages cannot be served, before it takes a job', async () => {
    const { env, queue } = await openWorkerBench();
    await queue.add('push', makeNotification());
    const worker = startProcess({
      args: ['workers/notifications.ts'],
      env: { ...env, METRICS_HOST: '203.0.113.1', METRICS_PORT: '9464' },
    });
    const { code, stdout } = await worker.waitForExit();
    expect(code).toBe(1);
    expect(stdout).toContain('the worker could not start');
    expect(await queue.getWaitingCount()).toBe(1);
  });

  it('knows --help and refuses other flags', async () => {
    const stdout = expect.stringContaining('LIMIT_MIN_GAP') as string;
    expect(await runMain(work, ['--help'])).toMatchObject({ code: 0, stdout });
    expect(await runMain(work, ['--x'])).toMatchObject({ code: 2 });
    for (const bad of ['0', 'x', '257']) {
      const stderr = `error: --processes: expected an integer from 1 to 256, or auto, found "${bad}"\n`;
      expect(await runMain(work, ['--processes', bad])).toMatchObject({ code: 2, stderr, stdout: '' });
    }
  });

  it('waits for a Redis that comes up after it', async () => {
    const { env } = await openWorkerBench();
    const redis = await startEmbeddedRedis();
    const { port } = new URL(redis.url);
    await redis.close();
    const own = { REDIS_URL: redis.url };
    const worker = startProcess({ args: ['workers/notifications.ts'], env: { ...env, ...own } });
    await worker.waitForLine(/no connection to Redis/);
    const later = await startEmbeddedRedis({ port: Number(port) });
    try {
      await worker.waitForLine(/"msg":"ready"/);
      worker.kill('SIGTERM');
      expect((await worker.waitForExit()).code).toBe(0);
    } finally {
      await later.close();
    }
  });
});
