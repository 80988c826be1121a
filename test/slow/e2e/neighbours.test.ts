import type { Queue } from 'bullmq';
import { expect, it } from 'vitest';
import type { Notification } from '../../../src/notification/notification.ts';
import type { Refuse } from '../../../sandbox/loopback/answers.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { connectRedis } from '../../support/redis.ts';
import { openSandbox } from '../../support/sandbox.ts';
import { openWorkerBench, type WorkerBench } from '../../support/worker.ts';

/**
 * One bad neighbour beside good traffic: a good push comes soon after its slot, whatever others meet. Each good push is for a
 * recipient of its own, so its slot is at once: one in 5 s for a while, then ten a second. What the good pushes take where there
 * is no bad neighbour, on the same machine at the same time, is the machine's and does not count.
 */
const LATE_MS = 3_000;
const SLOW = { everyMs: 5_000, count: 7 };
const FAST = { everyMs: 100, count: 100 };

type Device = Notification['devices'][number];

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const refuse = (status: number): Refuse => ({ kind: 'refuse', status });
const many = (count: number, device: () => Device): Device[] => Array.from({ length: count }, device);
const browser = (server: Sandbox | string): Device =>
  makeDevice('webpush', typeof server === 'string' ? server : server.webpush.url);

/** How late the worst good push was that this sandbox got, in milliseconds; Infinity if one did not come. */
async function worstOfGood(queue: Queue, sandbox: Sandbox, device: () => Device): Promise<number> {
  const sentAt = new Map<string, number>();
  for (const { everyMs, count } of [SLOW, FAST]) {
    for (let n = 0; n < count; n++) {
      const title = `good-${everyMs}-${n}`;
      const notification = makeNotification({ recipientId: title, devices: [device()], alert: { title } });
      sentAt.set(title, Date.now());
      await queue.add('push', notification, { jobId: notification.id, priority: 10 });
      await sleep(everyMs);
    }
  }
  const lateness = () => {
    const arrived = new Map(sandbox.journal.accepted.map(({ title = '', at }) => [title, at] as const));
    return [...sentAt].map(([title, at]) => (arrived.get(title) ?? Infinity) - at);
  };
  for (let waitedMs = 0; waitedMs < 10 * LATE_MS && lateness().includes(Infinity); waitedMs += 500) await sleep(500);
  return Math.max(...lateness());
}

/** Notifications that never get through, each to a recipient of its own. */
async function addOdd(queue: Queue, devices: readonly Device[]): Promise<void> {
  const notifications = devices.map((device, n) => makeNotification({ recipientId: `odd-${n}`, devices: [device] }));
  await queue.addBulk(notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } })));
}

/** Two push services, both of which the worker may use. */
async function twoServices(): Promise<{ readonly bench: WorkerBench; readonly other: Sandbox }> {
  const bench = await openWorkerBench();
  const { WEBPUSH_CA_FILE: ca = '' } = bench.sandbox.env();
  const other = await openSandbox({ dir: ca.slice(0, ca.lastIndexOf('/')) });
  await bench.startWorker({ WEBPUSH_ORIGINS: [bench.sandbox, other].map(({ webpush }) => webpush.url).join(',') });
  return { bench, other };
}

async function madeUpHosts(): Promise<number> {
  const { bench, other } = await twoServices();
  let made = 0;
  await addOdd(
    bench.queue,
    many(6, () => browser(`https://no-such-${made++}.push.apple.com`)),
  );
  return worstOfGood(bench.queue, other, () => browser(other));
}

async function oneServiceDown(): Promise<number> {
  const { bench, other } = await twoServices();
  bench.sandbox.webpush.setDefault(refuse(503));
  await addOdd(
    bench.queue,
    many(100, () => browser(bench.sandbox)),
  );
  return worstOfGood(bench.queue, other, () => browser(other));
}

async function madeUpSubscriptions(): Promise<number> {
  const bench = await openWorkerBench();
  await bench.startWorker();
  const odd = many(25, () => browser(bench.sandbox));
  for (const device of odd)
    if ('endpoint' in device)
      bench.sandbox.webpush.script(
        device.endpoint,
        Array.from({ length: 200 }, () => refuse(403)),
      );
  await addOdd(bench.queue, odd);
  return worstOfGood(bench.queue, bench.sandbox, () => browser(bench.sandbox));
}

async function oddDevices(platform: 'apns' | 'fcm', answer: Refuse, count = 10): Promise<number> {
  const bench = await openWorkerBench();
  await bench.startWorker({ ATTEMPTS: '100', BACKOFF_BASE: '1s', BACKOFF_MAX: '1s' });
  const odd = Array.from({ length: count }, () => makeDevice(platform));
  for (const { token } of odd)
    bench.sandbox[platform].script(
      token,
      Array.from({ length: 200 }, () => answer),
    );
  await addOdd(bench.queue, odd);
  return worstOfGood(bench.queue, bench.sandbox, () => makeDevice(platform));
}

async function unreadableJobs(): Promise<number> {
  const { queue, prefix, sandbox, startWorker } = await openWorkerBench();
  await startWorker();
  const redis = connectRedis();
  const over = new AbortController();
  const poisoning = (async () => {
    for (let n = 0; !over.signal.aborted; n++) {
      await queue.add('push', {}, { jobId: `poison-${n}`, priority: 10, delay: 300 });
      await redis.hset(`${prefix}:notifications:poison-${n}`, 'data', '{"data":NaN}');
      if (n % 50 === 49) await sleep(1_000);
    }
  })();
  const worstMs = await worstOfGood(queue, sandbox, () => makeDevice('apns'));
  over.abort();
  await poisoning;
  return worstMs;
}

it('a bad neighbour delays nobody by more than 3 s, with one good push in 5 s and with ten a second', async () => {
  const worst = {
    nobody: oddDevices('apns', refuse(503), 0),
    'six subscriptions of hosts that do not exist': madeUpHosts(),
    'a push service that answers 503 to 100 browsers': oneServiceDown(),
    '25 made-up subscriptions that get 403': madeUpSubscriptions(),
    'ten odd devices of APNs': oddDevices('apns', refuse(503)),
    'ten odd devices of FCM': oddDevices('fcm', refuse(503)),
    '50 jobs a second that are not JSON': unreadableJobs(),
  };
  const aloneMs = await worst.nobody;
  expect(aloneMs).toBeLessThan(Infinity);
  const late: string[] = [];
  for (const [name, worstMs] of Object.entries(worst))
    if ((await worstMs) - aloneMs > LATE_MS) late.push(`${name}: ${await worstMs} ms, with nobody: ${aloneMs} ms`);
  expect(late.join('\n')).toBe('');
}, 180_000);
