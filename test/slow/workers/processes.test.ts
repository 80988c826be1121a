import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { copyFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { tokenOf } from '../../../src/notification/device.ts';
import { checkMetrics } from '../../support/prometheus.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { openWorkerBench } from '../../support/worker.ts';

vi.setConfig({ testTimeout: 300_000 }); // a parent and its workers load their modules one after the other
const SOON = { timeout: 90_000, interval: 50 };
const LIMITS = { LIMIT_MIN_GAP: '1s', LIMIT_RULES: '100/1m', LOCK_DURATION: '1s' };

type Line = Readonly<Record<string, unknown>>;

/** `pushpacer worker --processes N`, in a process group of its own, which ends with this process. */
function start(processes: string, env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, ['scripts/pushpacer.ts', 'worker', '--processes', processes], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'], // it ends when its IPC channel is closed
    detached: true,
  });
  const pid = child.pid ?? 0;
  let [stdout, stderr] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const exit = (once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>).then(([code, signal]) => {
    return { code, signal };
  });
  const lines = (): Line[] =>
    stdout
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Line);
  const readyWorkers = () => lines().filter(({ msg }) => msg === 'this worker is ready');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exit;
    await vi.waitFor(() => expect(running(readyWorkers())).toEqual([]), SOON);
  });
  return {
    pid,
    lines,
    stderr: () => stderr,
    exit,
    signal: (name: NodeJS.Signals) => child.kill(name),
    signalGroup: (name: NodeJS.Signals) => process.kill(-pid, name),
    /** The lines of all workers that were ready so far. */
    readyWorkers,
    line: (fields: Line): Promise<Line> =>
      vi.waitFor(() => {
        const found = lines().find((line) => Object.entries(fields).every(([name, value]) => line[name] === value));
        if (found === undefined) throw new Error(`no line with ${JSON.stringify(fields)} in\n${stdout}${stderr}`);
        return found;
      }, SOON),
  };
}

type Parent = ReturnType<typeof start>;

const pidsOf = (lines: readonly Line[]): number[] => lines.map(({ pid }) => Number(pid));

/** Those of the processes that run. */
function running(lines: readonly Line[]): number[] {
  return pidsOf(lines).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== ''; // an ended process has none
    } catch {
      return false;
    }
  });
}

/** A parent with workers that take jobs, and the address of its pages. */
async function startReady(processes: number, env: Readonly<Record<string, string>>) {
  const parent = start(String(processes), { ...LIMITS, ...env });
  const { metrics } = await parent.line({ msg: 'ready', processes });
  return { ...parent, url: String(metrics) };
}

async function addAll(queue: Queue, notifications: readonly ReturnType<typeof makeNotification>[]): Promise<void> {
  await queue.addBulk(notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } })));
}

const toMany = (count: number) =>
  Array.from({ length: count }, (_, index) => makeNotification({ recipientId: `teacher-${index}` }));

async function page(url: string, name: string) {
  const answer = await fetch(`${url}/${name}`);
  return { status: answer.status, text: await answer.text() };
}

async function deliveredIn(url: string): Promise<number> {
  const { text } = await page(url, 'metrics');
  return Number(/^pushpacer_outcomes_total\{outcome="delivered",reason="",platform="apns"\} (\d+)$/m.exec(text)?.[1]);
}

/** Whether nothing is left to do. */
const isDone = (queue: Queue, count: number): Promise<void> =>
  vi.waitFor(async () => expect(await queue.getCompletedCount()).toBe(count), SOON);

describe('several workers under one parent', () => {
  it('deliver all within the limits, write whole lines, and have one page of metrics', async () => {
    const { env, queue, sandbox } = await openWorkerBench();
    const parent = await startReady(3, { ...env, WORKER_CONCURRENCY: '5' });
    const busy = Array.from({ length: 6 }, () => makeNotification({ recipientId: 'busy', devices: [makeDevice()] }));
    await addAll(queue, [...toMany(300), ...busy]);
    await isDone(queue, 306);

    expect(sandbox.journal.accepted).toHaveLength(306);
    const tokens = new Set(busy.flatMap(({ devices }) => devices.map(tokenOf)));
    const arrivals = sandbox.journal.accepted.filter(({ token }) => tokens.has(token)).map(({ at }) => at);
    expect(arrivals).toHaveLength(6);
    const gaps = arrivals.slice(1).map((at, index) => at - (arrivals[index] ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThan(1_000 - 400); // 250 ms at p99 is the way
    const delivered = await vi.waitFor(() => {
      const found = parent.lines().filter(({ outcome }) => outcome === 'delivered');
      expect(found).toHaveLength(306);
      return found;
    }, SOON);
    expect(new Set(delivered.map(({ worker }) => worker))).toEqual(new Set([1, 2, 3]));

    await vi.waitFor(async () => expect(await deliveredIn(parent.url)).toBe(306), SOON);
    const { text } = await page(parent.url, 'metrics');
    expect(text).toMatch(/^pushpacer_passes_total\{result="delivered"\} 306$/m);
    expect(text).toMatch(/^pushpacer_enqueue_to_accepted_seconds_count\{platform="apns"\} 306$/m);
    expect(text).toMatch(/^pushpacer_workers_alive 3$/m);
    expect(text.match(/^pushpacer_job_places\{worker="[123]"\} 5$/gm)).toHaveLength(3);
    expect(text.match(/^pushpacer_redis_memory_used_bytes/gm)).toHaveLength(1);
    expect(await checkMetrics(text)).toBe('');
    expect(await page(parent.url, 'healthz')).toEqual({ status: 200, text: 'ok\n' });
    const ready = await page(parent.url, 'readyz');
    expect(ready.status).toBe(200);
    const state = { ok: true, redis: true, consuming: true, providers: { apns: { breaker: 'closed' } } };
    const pids = pidsOf(parent.readyWorkers());
    expect(JSON.parse(ready.text)).toMatchObject({
      ok: true,
      workers: [1, 2, 3].map((worker) => ({ worker, pid: expect.any(Number) as number, ...state })),
    });
    expect(pids.every((pid) => ready.text.includes(`"pid":${pid},`))).toBe(true);
  });

  it('a worker that is killed under load is started again, nothing is lost, and no sum falls', async () => {
    const { env, queue, sandbox } = await openWorkerBench();
    const parent = await startReady(2, { ...env, WORKER_CONCURRENCY: '5' });
    await addAll(queue, toMany(400));
    await vi.waitFor(async () => expect(await deliveredIn(parent.url)).toBeGreaterThan(50), SOON);
    const before = await deliveredIn(parent.url);
    const [victim] = parent.readyWorkers().filter(({ worker }) => worker === 2);
    process.kill(Number(victim?.['pid']), 'SIGKILL');
    const ended = await parent.line({ msg: 'a worker has ended: it is started again in `inMs`' });
    expect(ended).toMatchObject({ worker: 2, endedPid: victim?.['pid'], signal: 'SIGKILL', inMs: 1_000 });
    expect(await deliveredIn(parent.url)).toBeGreaterThanOrEqual(before);
    await vi.waitFor(() => expect(parent.readyWorkers()).toHaveLength(3), SOON);
    await isDone(queue, 400);

    const tokens = new Set(sandbox.journal.accepted.map(({ token }) => token));
    expect(tokens.size).toBe(400);
    await addAll(queue, toMany(50));
    await isDone(queue, 450);
    const delivered = await deliveredIn(parent.url);
    expect(delivered).toBeGreaterThan(before + 50);
    expect(delivered).toBeLessThanOrEqual(450);
    expect((await page(parent.url, 'readyz')).status).toBe(200);
  });

  it('a worker that does not answer makes the pages 503, and is named there', async () => {
    const { env } = await openWorkerBench();
    const parent = await startReady(2, env);
    const pid = pidsOf(parent.readyWorkers().filter(({ worker }) => worker === 2))[0] ?? 0;
    process.kill(pid, 'SIGSTOP');
    const [sick, ready] = await Promise.all([page(parent.url, 'healthz'), page(parent.url, 'readyz')]);
    process.kill(pid, 'SIGCONT');
    expect(sick.status).toBe(503);
    expect(JSON.parse(sick.text)).toMatchObject({ ok: false, reason: 'silent', worker: 2, pid });
    expect(ready.status).toBe(503);
    expect(JSON.parse(ready.text)).toMatchObject({ workers: [{ ok: true }, { ok: false, pid }] });
    await vi.waitFor(async () => expect((await page(parent.url, 'readyz')).status).toBe(200), SOON);
  });

  it('SIGHUP to the parent lets all of them read their credentials again', async () => {
    const { env } = await openWorkerBench();
    const parent = await startReady(2, env);
    parent.signal('SIGHUP');
    for (const worker of [1, 2]) {
      await parent.line({ msg: 'credentials read anew: nothing has changed', worker, why: 'SIGHUP' });
    }
  });
});

/** A parent with two workers, which have pushes under way that take so long. */
async function startBusy(delayMs = 1_000) {
  const { env, queue, sandbox } = await openWorkerBench();
  sandbox.apns.setDefault({ kind: 'accept', delayMs });
  const parent = await startReady(2, env);
  await addAll(queue, toMany(10));
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(10), SOON);
  expect(await queue.getCompletedCount()).toBe(0);
  return { ...parent, queue };
}

describe('stopping', () => {
  it.each<[string, (parent: Parent) => void]>([
    ['SIGTERM to the parent', ({ signal }) => void signal('SIGTERM')],
    ['SIGTERM to all of them, as by systemd', ({ signalGroup }) => void signalGroup('SIGTERM')],
    ['Ctrl-C, a SIGINT to all of them', ({ signalGroup }) => void signalGroup('SIGINT')],
  ])('%s ends the jobs under way, and exits with 0', async (_, stop) => {
    const parent = await startBusy();
    stop(parent);
    expect(await parent.exit).toEqual({ code: 0, signal: null });
    expect(running(parent.readyWorkers())).toEqual([]);
    expect(await parent.queue.getCompletedCount()).toBe(10);
    expect(parent.lines().at(-1)).toMatchObject({ msg: 'stopped', pid: parent.pid });
    expect(parent.lines().filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('a later signal ends all at once', async () => {
    const parent = await startBusy(8_000); // within SHUTDOWN_GRACE
    parent.signal('SIGTERM');
    await parent.line({ msg: 'stopping: no more jobs are taken, those under way are finished within SHUTDOWN_GRACE' });
    await sleep(1_100); // within a second it would be the same signal
    parent.signal('SIGTERM');
    expect(await parent.exit).toEqual({ code: 1, signal: null });
    await vi.waitFor(() => expect(running(parent.readyWorkers())).toEqual([]), SOON);
    expect(await parent.queue.getCompletedCount()).toBe(0);
  });

  it('a parent that is killed leaves no worker; what they have under way is finished', async () => {
    const parent = await startBusy();
    expect(running(parent.readyWorkers())).toHaveLength(2);
    parent.signal('SIGKILL');
    await vi.waitFor(() => expect(running(parent.readyWorkers())).toEqual([]), { timeout: 8_000, interval: 50 });
    expect(await parent.queue.getCompletedCount()).toBe(10);
  });

  it('a parent that is killed while its first worker starts leaves none', async () => {
    const { env } = await openWorkerBench();
    const parent = start('2', env);
    const children = await vi.waitFor(() => {
      const pids = readFileSync(`/proc/${parent.pid}/task/${parent.pid}/children`, 'utf8').trim();
      expect(pids).not.toBe('');
      return pids.split(' ').map((pid) => ({ pid }));
    }, SOON);
    parent.signal('SIGKILL');
    await vi.waitFor(() => expect(running(children)).toEqual([]), SOON);
  });

  it('SIGTERM while the first worker starts ends all with 0', async () => {
    const { env } = await openWorkerBench();
    const nowhere = { REDIS_URL: 'redis://127.0.0.1:1' };
    const parent = start('2', { ...env, ...nowhere });
    await parent.line({ worker: 1, level: 'warn' }); // it waits for Redis
    parent.signal('SIGTERM');
    expect(await parent.exit).toEqual({ code: 0, signal: null });
  });
});

describe('a worker that cannot start', () => {
  it('with variables that cannot be read: one message, exit code 1, and no worker', async () => {
    const { env } = await openWorkerBench();
    const parent = start('3', { ...env, LIMIT_RULES: 'ten' });
    expect(await parent.exit).toEqual({ code: 1, signal: null });
    expect(parent.lines()).toEqual([]);
    expect(parent.stderr().trimEnd().split('\n')).toEqual([
      expect.stringMatching(/^error: bad environment: LIMIT_RULES: /),
    ]);
  });

  it('as Redis refuses the user, which only a worker sees: one message, and its exit code', async () => {
    const { env } = await openWorkerBench();
    const url = new URL(env['REDIS_URL'] ?? '');
    [url.username, url.password] = ['nobody', 'wrong'];
    const parent = start('3', { ...env, REDIS_URL: url.href });
    expect(await parent.exit).toEqual({ code: 1, signal: null });
    const fatal = parent.lines().filter(({ level }) => level === 'fatal');
    expect(fatal).toMatchObject([{ worker: 1, msg: 'the worker could not start, and exits with code 1' }]);
    expect(parent.stderr()).toBe('');
  });

  it('again, as its files were spoiled since: the parent tries after 1 s, 2 s, 4 s, until it can', async () => {
    const { env } = await openWorkerBench();
    const good = join(await temporaryFolder(), 'limits.json');
    await writeFile(`${good}.kept`, '{"categories":{}}');
    await copyFile(`${good}.kept`, good);
    const parent = await startReady(2, { ...env, LIMITS_FILE: good });
    await writeFile(good, 'no JSON');
    process.kill(pidsOf(parent.readyWorkers().filter(({ worker }) => worker === 1))[0] ?? 0, 'SIGKILL');
    for (const inMs of [1_000, 2_000, 4_000]) await parent.line({ worker: 1, inMs });
    await copyFile(`${good}.kept`, good);
    await vi.waitFor(() => expect(parent.readyWorkers()).toHaveLength(3), SOON);
    expect(parent.readyWorkers().at(-1)).toMatchObject({ worker: 1 });
    const again = parent.lines().filter(({ inMs }) => inMs !== undefined);
    expect(again.map(({ exitCode, signal }) => exitCode ?? signal)).toEqual(['SIGKILL', 1, 1]);
  });
});
