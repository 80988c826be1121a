import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { it, expect, test } from 'vitest';
import { FLOOD, FLOOD_POLICY, runFlood } from '../../../bench/pacing/rows.ts';
import type { SeenEntry } from '../../../demo/providers-child.ts';
import { machineChecks } from '../../../demo/verdict.ts';
import { judge, type Arrival } from '../../../sandbox/judge.ts';
import { readProgress } from '../../../src/delivery/progress.ts';
import type { Device, Notification } from '../../../src/notification/notification.ts';
import { dueAtOfScore } from '../../../src/queue/bullmq-internals.ts';
import { notification, present } from '../../queue/support.ts';
import { ownRedis } from '../../support/own-redis.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeDevice, makeNotification, makeTraced } from '../../support/push.ts';
import { openRealBench } from '../../support/real-bench.ts';
import { connectRedis } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { waitFor } from '../../support/wait.ts';
import { openWorkerBench } from '../../support/worker.ts';

const COUNT = 24;
const IN_ORDER = Array.from({ length: COUNT }, (_, index) => index);

/** To one recipient: some to an iPhone, some to an Android phone, some to both; numbered by their titles. */
function mixed(): Notification[] {
  const devices: Device[][] = [[makeDevice('apns')], [makeDevice('fcm')], [makeDevice('fcm'), makeDevice('apns')]];
  return IN_ORDER.map((index) =>
    makeNotification({ devices: devices[index % 3] ?? [], alert: { title: String(index) } }),
  );
}

it('slots of one recipient follow the order of enqueuing, also at a worker that has just started', async () => {
  const bench = await openRealBench();
  await bench.enqueue(mixed());
  await bench.startWorker({ WORKER_CONCURRENCY: '50', LIMIT_RULES: '1000/1m', LIMIT_MIN_GAP: '500ms' });
  await bench.completed(COUNT);
  const order = [...new Set(bench.accepted().map(({ title }) => Number(title)))];
  expect(order).toHaveLength(COUNT);
  // Who misses a slot, because the machine stood still for half a gap, gets the last one.
  const jobs = await bench.queue.getJobs(['completed']);
  const late = jobs.filter(({ progress }) => readProgress(progress).requeues > 1);
  const lateTitles = late.map(({ data }) => Number((data as Notification).alert?.title));
  expect(late.length).toBeLessThan(COUNT / 4);
  expect(order.filter((title) => !lateTitles.includes(title))).toEqual(
    IN_ORDER.filter((title) => !lateTitles.includes(title)),
  );
}, 180_000);

/** What devices got, as the judge takes it: all of one recipient. */
const arrivalsOf = (entries: readonly SeenEntry[]): Arrival[] =>
  entries.map(({ token, at, delayMs, data }) => ({
    ...{ recipientId: 'one', device: token, at, delayMs },
    notificationId: data['ref'] ?? '',
  }));

it('a category with a policy of its own is paced by it, and the others are not', async () => {
  const bench = await openRealBench();
  const LIMITS_FILE = join(await temporaryFolder(), 'limits.json');
  await writeFile(LIMITS_FILE, JSON.stringify({ categories: { homework: { minGap: '700ms' } } }));
  const worker = await bench.startWorker({ LIMITS_FILE, LIMIT_RULES: '100/1m', LIMIT_MIN_GAP: '10ms' });
  const devices = [makeDevice()];
  const homework = [1, 2, 3].map(() => makeTraced({ devices, category: 'homework', collapseId: 'homework' }));
  const messages = [1, 2, 3].map(() => makeTraced({ devices, category: 'messages' }));
  await bench.enqueue([...homework, ...messages]);
  await worker.waitForLine(/"rule":"homework:gap"/);
  await bench.completed(6);

  const isHomework = bench.accepted().map(({ collapseId }) => collapseId === 'homework');
  expect(isHomework.filter(Boolean)).toHaveLength(3);
  expect(isHomework.slice(-2)).toEqual([true, true]); // all others came before the second one
  const own = bench.accepted().filter(({ collapseId }) => collapseId === 'homework');
  expect(judge(arrivalsOf(own), { rules: [], minGapMs: 700 })).toMatchObject({ gapViolations: 0 });
});

it('a quota of the project limits all workers together, and what is over it waits once', async () => {
  const bench = await openRealBench();
  const env = { FCM_QUOTA: '5/1s', LIMIT_RULES: '100/1m', LIMIT_MIN_GAP: '0' };
  const workers = await Promise.all([bench.startWorker(env), bench.startWorker(env)]);
  await bench.enqueue(
    Array.from({ length: 15 }, (_, number) =>
      makeTraced({ recipientId: `teacher-${number}`, devices: [makeDevice('fcm')] }),
    ),
  );
  await bench.completed(15);
  // The way to the provider is not the same for each.
  const policy = { rules: [{ max: 5, perMs: 850 }], minGapMs: 0 };
  expect(judge(arrivalsOf(bench.accepted()), policy)).toMatchObject({ windowViolations: 0 });
  await Promise.any(workers.map((worker) => worker.waitForLine(/"rule":"fcm:5\/1s"/)));
});

it('where too many wait for one recipient, one more becomes a dead letter', async () => {
  const { queue, deadQueue, sandbox, startHere } = await openReplicaBench();
  await startHere({ LIMIT_MAX_PENDING: '2', LIMIT_MIN_GAP: '10m' });
  await queue.addBulk([1, 2, 3, 4, 5].map(() => ({ name: 'push', data: makeNotification(), opts: { priority: 10 } })));
  await waitFor(async () => expect(await queue.getDelayedCount()).toBe(2));
  await waitFor(async () => expect(await deadQueue.getJobs()).toHaveLength(2));
  await waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1));
  const reasons = (await deadQueue.getJobs()).map(({ data }) => (data as { reason: string }).reason);
  expect(reasons).toEqual(['throttled-too-long', 'throttled-too-long']);
});

/** What moves the clock of a whole worker process. */
function shifted(byMs: number): Record<string, string> {
  const script = `const now = Date.now; Date.now = () => now() + ${byMs};`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` };
}

const PEOPLE = 5;
const GAP_MS = 3_000;

test.for([
  { name: 'a minute ahead', shiftsMs: [60_000] },
  { name: 'a minute behind', shiftsMs: [-60_000] },
  { name: 'a minute ahead, and one a minute behind,', shiftsMs: [60_000, -60_000] },
])('a worker $name puts jobs back to their time on Redis’s clock, and takes none before it', async ({ shiftsMs }) => {
  const { queue, env, startWorker } = await openWorkerBench();
  const redis = connectRedis();
  const settings = { ...env, LIMIT_MIN_GAP: `${GAP_MS}ms` };
  const workers = await Promise.all(shiftsMs.map((byMs) => startWorker({ ...settings, ...shifted(byMs) })));
  await present(workers[0]).waitForLine(/"level":"?(warn|40).*this machine's clock is not Redis's/);
  const people = Array.from({ length: PEOPLE }, (_, n) => `teacher-${n}`);
  for (const recipientId of people) {
    for (const part of [1, 2]) {
      const id = `${recipientId}-${part}`;
      await queue.add('push', notification({ id, recipientId }), { jobId: id, priority: 10 });
    }
  }

  await waitFor(async () => expect(await queue.getDelayedCount()).toBe(PEOPLE));
  const [seconds] = await redis.time();
  const delayed = await redis.zrange(queue.toKey('delayed'), '0', '-1', 'WITHSCORES');
  const aheadMs = delayed
    .filter((_, at) => at % 2 === 1)
    .map((score) => dueAtOfScore(Number(score)) - 1_000 * Number(seconds));
  expect(aheadMs).toHaveLength(PEOPLE);
  for (const ms of aheadMs) expect(Math.abs(ms)).toBeLessThan(30_000); // a clock that is not Redis's would be a minute off

  await waitFor(async () => expect(await queue.getCompletedCount()).toBe(2 * PEOPLE)); // less than a minute
  const passes = (await queue.getCompleted()).map(({ attemptsStarted }) => attemptsStarted);
  expect(passes.filter((count) => count > 1).length).toBeGreaterThanOrEqual(PEOPLE);
  // A busy worker may ask anew a few times; taken before its time, a job would be put back hundreds of times.
  expect(Math.max(...passes)).toBeLessThan(20);
});

test.for([
  { concurrency: 50, eachWayMs: 0, where: 'direct' },
  { concurrency: 200, eachWayMs: 2, where: 'behind a relay of 2 ms' },
])(
  `${FLOOD.busy} to one recipient keep their gap and lose no time amid ${FLOOD.others} others: $concurrency at once, Redis $where`,
  { timeout: 240_000 },
  async ({ concurrency, eachWayMs }) => {
    const redis = await ownRedis();
    const figures = await runFlood(redis.url, FLOOD, { concurrency, eachWayMs, warm: true });
    expect(figures).toMatchObject({ violations: 0, duplicates: 0, lost: 0 });
    expect(figures.wakeUps).toBeGreaterThan(FLOOD.busy / 2); // else hardly anything waited, and nothing was shown
    const [requeues, time] = machineChecks(figures.counts, FLOOD_POLICY);
    expect(requeues).toMatchObject({ ok: true });
    // On a machine that wakes workers later than the late tolerance, slots are lost, and nobody promised otherwise.
    if (figures.counts.lateWakes + figures.counts.standstills === 0) expect(time).toMatchObject({ ok: true });
  },
);
