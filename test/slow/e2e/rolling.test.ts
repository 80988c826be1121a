import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { judge, type Arrival } from '../../../sandbox/judge.ts';
import { tokenOf } from '../../../src/notification/device.ts';
import type { Notification } from '../../../src/notification/notification.ts';
import { main as replay } from '../../../scripts/replay.ts';
import { main as status } from '../../../scripts/status.ts';
import { runMain } from '../../support/command.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { openRealBench, type RealBench } from '../../support/real-bench.ts';
import { earlierVersion, nextVersion } from '../../support/versions.ts';
import type { TestWorker } from '../../support/worker.ts';

/** Replicas of two versions at one queue, replaced one by one under load, and judged by what arrived at the providers. */

const POLICY = { rules: [{ max: 4, perMs: 2_000 }], minGapMs: 300 };
const ENV = { LIMIT_RULES: '4/2s', LIMIT_MIN_GAP: '300ms', WORKER_CONCURRENCY: '20' };
const RECIPIENTS = 12;
/** So many wait for their slots while there is load. */
const BACKLOG = 120;
/** What a test enqueues at the most, whatever the machine takes for the rest. */
const MOST = 3_000;
/** Ends a test that would fail anyway. */
const PATIENT = { timeout: 240_000, interval: 200 };

interface Roll extends RealBench {
  /** Everything that was enqueued. */
  readonly sent: readonly Notification[];
  /** All workers that were ever started, by version. */
  readonly workers: ReadonlyMap<string, readonly TestWorker[]>;
  /** Starts this many replicas of a version. */
  start(version: string, program: string | undefined, count: number): Promise<void>;
  /** SIGTERM to one replica after the other, and another version in its place. */
  roll(version: string, program: string | undefined): Promise<void>;
  /** Enqueues four notifications to each recipient. `more`: other fields of the data. */
  enqueue(more?: object): Promise<void>;
  /** Enqueues to all recipients in turn so that always some wait, until it is stopped. `more`: other fields of the data. */
  load(more?: object): { stop(): Promise<void> };
  /** Resolves when nothing is left in the queue. */
  drained(): Promise<void>;
}

async function openRoll(): Promise<Roll> {
  const bench = await openRealBench();
  const { queue } = bench;
  const sent: Notification[] = [];
  const workers = new Map<string, TestWorker[]>();
  let running: TestWorker[] = [];

  async function startOne(version: string, program: string | undefined): Promise<void> {
    const worker = await bench.startWorker(ENV, [], program);
    running.push(worker);
    workers.set(version, [...(workers.get(version) ?? []), worker]);
  }

  async function enqueue(more: object = {}): Promise<void> {
    const some = Array.from({ length: 4 * RECIPIENTS }, (_, index) => notificationOf(sent.length + index));
    for (const [index, each] of some.entries()) {
      if (isGone(sent.length + index)) await bench.providers.script('apns', tokens(each).join(), [GONE]);
    }
    sent.push(...some);
    await queue.addBulk(
      some.map((each) => ({ name: 'push', data: { ...each, ...more }, opts: { jobId: each.id, priority: 10 } })),
    );
  }

  return {
    ...bench,
    sent,
    workers,
    enqueue,
    async start(version, program, count) {
      for (let started = 0; started < count; started += 1) await startOne(version, program);
    },
    async roll(version, program) {
      const old = running;
      running = [];
      for (const worker of old) {
        worker.kill('SIGTERM');
        expect(await worker.waitForExit(60_000)).toMatchObject({ code: 0, stderr: '' });
        await startOne(version, program);
      }
    },
    load(more = {}) {
      const stopping = new AbortController();
      const done = (async () => {
        while (!stopping.signal.aborted && sent.length < MOST) {
          const waiting = await queue.getJobCountByTypes('prioritized', 'delayed');
          if (waiting < BACKLOG) await enqueue(more);
          else await sleep(50);
        }
      })();
      done.catch(() => undefined); // `stop` rejects
      return {
        stop: () => {
          stopping.abort();
          return done;
        },
      };
    },
    drained: () =>
      expect
        .poll(() => queue.getJobCountByTypes('prioritized', 'delayed', 'active', 'wait', 'failed'), PATIENT)
        .toBe(0),
  };
}

const GONE = { kind: 'refuse', status: 410, reason: 'Unregistered' } as const;

const isGone = (number: number): boolean => number % 25 === 0;

function notificationOf(number: number): Notification {
  const ref = `roll-${number}`;
  const recipientId = `teacher-${number % RECIPIENTS}`;
  const devices = [makeDevice(isGone(number) || number % 2 === 0 ? 'apns' : 'fcm')];
  return makeNotification({ id: ref, recipientId, devices, data: { ref } });
}

const tokens = ({ devices }: Notification): string[] => devices.map(tokenOf);

/** Nothing lost, nothing doubled without a reason, no gap and no window broken. */
async function expectKept(bench: Roll): Promise<void> {
  const { sent, queue, deadQueue, providers } = bench;
  const recipientOf = new Map(sent.map(({ id, recipientId }) => [id, recipientId]));
  const arrivals = bench.accepted().map(({ token, data, at, delayMs }): Arrival => {
    const notificationId = data['ref'] ?? '';
    return { recipientId: recipientOf.get(notificationId) ?? 'nobody', notificationId, device: token, at, delayMs };
  });
  expect(judge(arrivals, POLICY)).toMatchObject({ gapViolations: 0, windowViolations: 0 });

  const gone = new Set(providers.entries.filter(({ status }) => status === 410).map(({ data }) => data['ref'] ?? ''));
  const alerted = Map.groupBy(arrivals, ({ notificationId }) => notificationId);
  const dead = (await deadQueue.getJobs()).map(({ id, data }) => [id, (data as { reason: string }).reason]);
  expect(dead.toSorted()).toEqual([...gone].map((id) => [id, 'unregistered']).toSorted());
  expect([...alerted.keys(), ...gone].toSorted()).toEqual(sent.map(({ id }) => id).toSorted());
  // A request that timed out, as on a machine that stood still, may have arrived: it is sent again (docs/guarantees.md).
  for (const [id, { length }] of alerted) {
    if (length === 1) continue;
    expect((await queue.getJob(id))?.progress, `${id} arrived ${length} times`).toMatchObject({
      attempts: expect.arrayContaining([expect.anything()]) as unknown,
    });
  }
}

/** No error, and no warning but those about what this test does itself. */
function expectQuietLogs({ workers }: Roll, expected: RegExp): void {
  for (const worker of [...workers.values()].flat()) {
    const lines = worker.stdout().split('\n');
    expect(lines.filter((line) => /"level":"(warn|error|fatal)"/.test(line) && !expected.test(line))).toEqual([]);
  }
}

/** The ids of the jobs whose passes ended with these outcomes in workers of a version. */
function idsIn(workers: readonly TestWorker[] = [], outcome: string): Set<string> {
  const lines = workers.flatMap((worker) => worker.stdout().split('\n'));
  const ended = lines.filter((line) => line.endsWith('}') && line.includes(`"outcome":"${outcome}"`));
  return new Set(ended.map((line) => (JSON.parse(line) as { jobId: string }).jobId));
}

/** How many notifications a version sent that the other one had put back. */
function sentAfter({ workers }: Roll, version: string, other: string): number {
  const putBack = idsIn(workers.get(other), 'requeued');
  return [...idsIn(workers.get(version), 'delivered')].filter((id) => putBack.has(id)).length;
}

it('replicas of an earlier version are replaced one by one, and put back again: nothing is lost, doubled or burst', async () => {
  const bench = await openRoll();
  const earlier = await earlierVersion();
  await bench.start('earlier', earlier, 3);
  const load = bench.load();
  await expect.poll(() => bench.accepted().length, PATIENT).toBeGreaterThan(20);
  for (const [version, program, other] of [
    ['present', undefined, 'earlier'],
    ['earlier', earlier, 'present'],
  ] as const) {
    await bench.roll(version, program);
    // What waits is sent some seconds after it was put back, so a quick machine would be at the next version already.
    await expect.poll(() => sentAfter(bench, version, other), PATIENT).toBeGreaterThan(5);
  }
  await load.stop();
  await bench.drained();

  await expectKept(bench);
  expectQuietLogs(bench, /"outcome":"dead-lettered","reason":"unregistered"/);
  const { workers } = bench;
  expect([...workers].map(([version, all]) => [version, all.length])).toEqual([
    ['earlier', 6],
    ['present', 3],
  ]);
}, 600_000);

it('an earlier version makes a dead letter of a notification to an installation id, and a replay delivers it', async () => {
  const bench = await openRoll();
  const { queue, deadQueue, env } = bench;
  await bench.start('earlier', await earlierVersion(), 1);
  const [phone, fid] = [makeDevice(), 'cQx3v8fZTn6tE1mKp0aB9d'];
  const notification = makeNotification({ devices: [phone, { platform: 'fcm', fid }] });
  await queue.add('push', notification, { jobId: notification.id, priority: 10 });
  const deadLetters = async (): Promise<unknown[]> => (await deadQueue.getJobs()).map(({ data }) => data as unknown);
  await expect.poll(deadLetters, PATIENT).toMatchObject([
    {
      reason: 'invalid',
      message: expect.stringContaining('devices[1].fid: expected no such field') as unknown,
      notification: { id: notification.id },
    },
  ]);
  expect(bench.accepted()).toEqual([]);

  await bench.roll('present', undefined);
  await runMain(replay, ['--reason', 'invalid', '--yes'], env);
  const alerted = (): string[] => bench.accepted().map(({ token }) => token);
  await expect.poll(alerted, PATIENT).toHaveLength(2);
  expect(alerted().toSorted()).toEqual([fid, phone.token].toSorted());
  await expect.poll(deadLetters, PATIENT).toEqual([]);
}, 300_000);

it('after a rollback, what the newer version wrote waits until workers can read it, and the rest goes on', async () => {
  const bench = await openRoll();
  const { queue, deadQueue, sent, workers, env } = bench;
  const next = await nextVersion();
  await bench.start('present', undefined, 2);
  await bench.roll('next', next);
  const load = bench.load({ format: 2 });
  await expect.poll(() => idsIn(workers.get('next'), 'requeued').size, PATIENT).toBeGreaterThan(20);
  await bench.roll('present', undefined);
  await load.stop();
  const before = sent.length;
  await bench.enqueue();

  const ofPresent = new Set(sent.slice(before).map(({ id }) => id));
  const waiting = async () => (await queue.getJobs(['prioritized', 'delayed', 'active'])).map(({ id }) => id ?? '');
  await expect.poll(async () => (await waiting()).filter((id) => ofPresent.has(id)), PATIENT).toEqual([]);
  const left = await waiting();
  expect(left.length).toBeGreaterThan(20);
  await expect.poll(async () => newerJobs(bench), PATIENT).toBeGreaterThanOrEqual(left.length);
  // A few may be in a worker's hand when it is asked for.
  const newer = {
    kind: 'newer',
    text: expect.stringContaining(`${left.length} jobs were written by a newer`) as unknown,
  };
  await expect.poll(() => wrongs(env), PATIENT).toContainEqual(newer);
  expect((await deadQueue.getJobs()).filter(({ id }) => left.includes(id ?? ''))).toEqual([]);

  await bench.roll('next', next);
  await bench.drained();
  await expectKept(bench);
  expectQuietLogs(bench, /"outcome":"dead-lettered","reason":"unregistered"|a newer version of pushpacer wrote/);
}, 600_000);

async function wrongs(env: RealBench['env']): Promise<unknown[]> {
  const { stdout } = await runMain(status, ['--json'], env);
  return (JSON.parse(stdout) as { wrong: unknown[] }).wrong;
}

/** As the workers of the present count them. */
async function newerJobs({ workers }: Roll): Promise<number> {
  const alive = (workers.get('present') ?? []).slice(-2);
  const pages = await Promise.all(alive.map(async ({ url }) => (await fetch(`${url}/metrics`)).text()));
  return pages.reduce((sum, page) => sum + Number(/^pushpacer_newer_jobs_total (\d+)$/m.exec(page)?.[1] ?? NaN), 0);
}
