import { describe, expect, it } from 'vitest';
import { tokenOf } from '../../../src/notification/device.ts';
import type { Notification } from '../../../src/notification/notification.ts';
import { judge, type Arrival } from '../../../sandbox/judge.ts';
import { machineChecks } from '../../../demo/verdict.ts';
import type { SeenEntry } from '../../../demo/providers-child.ts';
import { readProgress } from '../../../src/delivery/progress.ts';
import { makeDevice, makeNotification, makeTraced } from '../../support/push.ts';
import { openRealBench, overtakings } from '../../support/real-bench.ts';

/** Notifications to one recipient with one phone, numbered by their titles. */
function toOne(count: number): Notification[] {
  const devices = [makeDevice('apns')];
  return Array.from({ length: count }, (_, index) => makeTraced({ devices, alert: { title: String(index) } }));
}

/** Each to a recipient of its own. */
function toMany(count: number, devicesOf: () => Notification['devices']): Notification[] {
  return Array.from({ length: count }, (_, index) =>
    makeTraced({ recipientId: `recipient-${index}`, devices: devicesOf() }),
  );
}

const arrivalOf = ({ title, token, at, delayMs }: SeenEntry): Arrival => ({
  recipientId: 'one',
  notificationId: title ?? '',
  device: token,
  at,
  delayMs,
});
/** The slot of each job that was put back once, as the workers' logs have it: epoch milliseconds. */
function slotsOf(logs: readonly string[]): Map<string, number> {
  const lines = logs.join('\n').split('\n');
  const slots = lines.flatMap((line) => {
    if (!line.includes('"outcome":"requeued"')) return [];
    const { id, time, waitMs } = JSON.parse(line) as { id: string; time: string; waitMs: number };
    return [[id, Date.parse(time) + waitMs] as const];
  });
  return new Map(slots);
}

const spanMs = (entries: readonly SeenEntry[]): number => (entries.at(-1)?.at ?? 0) - (entries[0]?.at ?? 0);

describe('40 alerts to one recipient, answered as slowly as by real providers', () => {
  const POLICY = { rules: [{ max: 10, perMs: 5_000 }], minGapMs: 300 };
  const ENV = { LIMIT_RULES: '10/5s', LIMIT_MIN_GAP: '300ms' };

  it.each([
    ['one worker, 30 to 120 ms', 1, { medianMs: 60, p99Ms: 120 }],
    ['three workers, 30 to 120 ms', 3, { medianMs: 60, p99Ms: 120 }],
  ])(
    '%s: exact, in order, each blocked once',
    async (_, workers, latency) => {
      const bench = await openRealBench({ latency });
      const processes = await Promise.all(Array.from({ length: workers }, () => bench.startWorker(ENV)));
      const notifications = toOne(40);
      await bench.enqueue(notifications);
      await bench.completed(40, 90_000);
      const verdict = judge(bench.accepted().map(arrivalOf), POLICY);
      expect(verdict).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 0 });

      const jobs = await bench.queue.getJobs(['completed']);
      const requeues = jobs.map((job) => readProgress(job.progress).requeues).filter((count) => count > 0);
      const sum = requeues.reduce((total, count) => total + count, 0);
      const counts = {
        ...verdict,
        ...(await bench.lateness()),
        alertsOfBusiest: 40,
        requeues: sum,
        blocked: requeues.length,
        requeuesPerBlocked: sum / requeues.length,
        moreRequeuesOfBusiest: sum - requeues.length,
      };
      expect(machineChecks(counts, POLICY).filter(({ ok }) => !ok)).toEqual([]);
      expect(requeues.length).toBeGreaterThan(25);

      const titles = bench.accepted().map(({ title }) => title ?? '');
      const order = overtakings(titles.map(Number));
      expect(order).toHaveLength(40);
      // Who came back later than the tolerance may be overtaken; one worker asks for slots in the order of enqueuing, several take
      // jobs up at once, and ask as they come.
      if (counts.lateWakes + counts.standstills > 0) return;
      if (workers === 1) expect(Math.max(...order)).toBe(0);
      const slots = slotsOf(processes.map((worker) => worker.stdout()));
      const slotOf = new Map(notifications.map(({ id, alert }) => [alert?.title, slots.get(id)]));
      const afterSlot = overtakings(titles.flatMap((title) => slotOf.get(title) ?? []));
      expect(afterSlot.length).toBeGreaterThan(25);
      expect(Math.max(...afterSlot)).toBe(0);
    },
    300_000,
  );
});

describe('an answer about one device', () => {
  it.each([
    ['THIRD_PARTY_AUTH_ERROR', { kind: 'refuse', status: 401, reason: 'THIRD_PARTY_AUTH_ERROR' }],
    ['QUOTA_EXCEEDED', { kind: 'refuse', status: 429, reason: 'QUOTA_EXCEEDED', retryAfter: '30', quota: 'device' }],
  ] as const)('%s delays nobody else', async (_, answer) => {
    const bench = await openRealBench();
    await bench.startWorker();
    const odd = makeDevice('fcm');
    await bench.providers.script('fcm', odd.token, [answer]);
    await bench.enqueue([makeNotification({ devices: [odd] })]);
    await expect.poll(() => bench.providers.entries.length, { timeout: 15_000 }).toBe(1);
    await bench.enqueue(toMany(200, () => [makeDevice('fcm')]));
    await bench.completed(200, 20_000);
    expect(spanMs(bench.accepted())).toBeLessThan(15_000); // half of what the answer asks its own device to wait
  });
});

describe('a healthy provider that takes 250 ms', () => {
  const LATENCY_MS = 250;
  const latency = { medianMs: LATENCY_MS, p99Ms: 260 };

  /** How many recipients' second phones were asked before the first could have answered. */
  const asksAtOnce = (entries: readonly SeenEntry[], deviceLists: readonly Notification['devices'][]): number => {
    const asked = new Map(entries.map((entry) => [entry.token, entry]));
    return deviceLists.filter((devices) => {
      const own = devices.map((device) => asked.get(tokenOf(device)));
      const earliest = own.map((entry) => (entry?.at ?? NaN) - (entry?.delayMs ?? 0));
      return Math.max(...earliest) - Math.min(...own.map((entry) => entry?.at ?? NaN)) < LATENCY_MS;
    }).length;
  };

  // Times are those of a machine that may be busy: one request after the other would take ten times as long.
  it.each([
    ['200 notifications to two phones of one platform with WORKER_CONCURRENCY=50', 200, '50', ['fcm', 'fcm']],
    ['400 notifications on both platforms with WORKER_CONCURRENCY=200', 400, '200', ['apns', 'fcm']],
  ] as const)('gets %s, both phones of each at once', async (_, count, WORKER_CONCURRENCY, platforms) => {
    const bench = await openRealBench({ latency });
    const worker = await bench.startWorker({ WORKER_CONCURRENCY });
    const notifications = toMany(count, () => platforms.map((platform) => makeDevice(platform)));
    await bench.enqueue(notifications);
    await bench.completed(count, 30_000);
    expect(bench.accepted()).toHaveLength(2 * count);
    expect(spanMs(bench.accepted())).toBeLessThan((2 * count * LATENCY_MS) / 10);
    const deviceLists = notifications.map(({ devices }) => devices);
    expect(asksAtOnce(bench.accepted(), deviceLists)).toBeGreaterThan(0.9 * count);
    expect(worker.stdout()).not.toMatch(/outage/);
  });
});

it('keeps what waits where APNs says that our own configuration is wrong', async () => {
  const bench = await openRealBench();
  const env = { APNS_TOPIC: 'dev.pushpacer.another', PROVIDER_PAUSE_BASE: '1s', PROVIDER_PAUSE_MAX: '2s' };
  const worker = await bench.startWorker(env);
  await bench.enqueue(toMany(100, () => [makeDevice('apns')]));
  const line = await worker.waitForLine(/"trouble":"configuration"/);
  expect(JSON.parse(line)).toMatchObject({ level: 'error', platform: 'apns', code: 'TopicDisallowed' });
  await expect.poll(() => bench.queue.getDelayedCount(), { timeout: 15_000 }).toBe(100);
  expect(await bench.deadQueue.count()).toBe(0);
  expect(bench.accepted()).toEqual([]);
});

it('a lone worker is on time, also while another job is delayed for hours', async () => {
  const bench = await openRealBench();
  await bench.startWorker({ LIMIT_RULES: '100/1m', LIMIT_MIN_GAP: '500ms' });
  await bench.queue.add('push', makeNotification(), { delay: 7_200_000, priority: 10 });
  const people = Array.from({ length: 20 }, (_, index) => ({
    recipientId: `teacher-${index}`,
    devices: [makeDevice('apns')],
  }));
  const titles = [0, 1, 2].map(String);
  await bench.enqueue(titles.flatMap((title) => people.map((person) => makeTraced({ ...person, alert: { title } }))));
  await bench.completed(60);
  const byToken = [...Map.groupBy(bench.accepted(), ({ token }) => token).values()];
  const lateMs = byToken.flatMap((own) =>
    own.map(({ at, delayMs = 0 }, index) => at - delayMs - (own[0]?.at ?? 0) - 500 * index),
  );
  expect(lateMs).toHaveLength(60);
  expect(byToken.map((own) => own.map(({ title }) => title).join(''))).toEqual(Array(20).fill('012'));
  expect(Math.max(...lateMs)).toBeLessThan(450); // the late tolerance: later than that an alert would lose its slot
}, 120_000);

it('a provider that has just recovered stays open, on a handful of connections', async () => {
  const bench = await openRealBench();
  const env = { PROVIDER_PAUSE_BASE: '500ms', PROVIDER_PAUSE_MAX: '1s', BACKOFF_BASE: '100ms' };
  const worker = await bench.startWorker(env);
  await bench.providers.order({ do: 'down', platform: 'fcm' });
  await bench.enqueue(toMany(300, () => [makeDevice('fcm')]));
  await worker.waitForLine(/"trouble":"outage"/);
  await bench.providers.order({ do: 'up', platform: 'fcm' });
  await bench.completed(300, 30_000);
  const closedAt = worker.stdout().indexOf('circuit breaker closed');
  expect(closedAt).toBeGreaterThan(0);
  expect(worker.stdout().slice(closedAt)).not.toContain('"trouble":"outage","code":"connection');
  expect(new Set(bench.accepted().map(({ token }) => token)).size).toBe(300);
});

it('sends nothing that no producer enqueued', async () => {
  const bench = await openRealBench();
  const worker = await bench.startWorker();
  await bench.providers.order({ do: 'drop', platform: 'apns' });
  await bench.providers.order({ do: 'drop', platform: 'fcm' });
  const notifications = toMany(3, () => [makeDevice('apns'), makeDevice('fcm')]);
  await bench.enqueue(notifications);
  await bench.completed(3);
  worker.kill('SIGTERM');
  await worker.waitForExit(15_000);
  const tokens = notifications.flatMap(({ devices }) => devices.map(tokenOf));
  expect(bench.providers.entries.map(({ token }) => token).sort()).toEqual(tokens.sort());
});
