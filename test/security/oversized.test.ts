import { expect, it, vi } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { parseNotification } from '../../src/notification/notification.ts';
import { redact } from '../../src/notification/redact.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openWorkerBench } from '../support/worker.ts';

const MB = 1_048_576;
const good = { id: 'big', recipientId: 'r', devices: [{ platform: 'fcm', token: 'some-token' }], alert: { body: 'b' } };
const nested = (depth: number): unknown => JSON.parse('['.repeat(depth) + ']'.repeat(depth));
const manyNames = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`name${index}`, 1]));

const BIG: Readonly<Record<string, unknown>> = {
  'a text of 5 MB': { ...good, alert: { title: 'x'.repeat(5 * MB) } },
  'a token of 5 MB': { ...good, devices: [{ platform: 'fcm', token: 'x'.repeat(5 * MB) }] },
  'a recipient of 5 MB': { ...good, recipientId: 'x'.repeat(5 * MB) },
  'a name of 5 MB': { ...good, ['x'.repeat(5 * MB)]: 1 },
  '10,000 devices': { ...good, devices: Array.from({ length: 10_000 }, () => good.devices[0]) },
  'a million empty devices': { ...good, devices: Array.from({ length: 1_000_000 }, () => []) },
  '300,000 names in the data': { ...good, data: manyNames(300_000) },
  '300,000 fields': { ...good, ...manyNames(300_000) },
  'a device of 300,000 fields': { ...good, devices: [manyNames(300_000)] },
  'a million levels': { ...good, data: nested(1_000_000) },
  'a text alone': 'x'.repeat(5 * MB),
};

/** The quickest of three: a busy machine makes any of them slow. */
function quickestMs(work: () => unknown): number {
  const times = [1, 2, 3].map(() => {
    const startedAt = performance.now();
    work();
    return performance.now() - startedAt;
  });
  return Math.min(...times);
}

/** BullMQ reads each job as JSON. Checking each field takes ten times as long, and a worker does nothing else meanwhile. */
it.each(Object.keys(BIG).filter((name) => name !== 'a million levels'))(
  '%s: refused no later than it is read',
  (name) => {
    const text = JSON.stringify(BIG[name]);
    const readMs = quickestMs(() => JSON.parse(text) as unknown);
    const refusedMs = quickestMs(() => parseNotification(BIG[name]));
    expect(refusedMs).toBeLessThan(20 + 3 * readMs);
  },
);

it.each(Object.keys(BIG))('%s: refused in few words', (name) => {
  const parsed = parseNotification(BIG[name]);
  expect(parsed.ok).toBe(false);
  if (!parsed.ok) expect(parsed.faults.map(formatFault).join('; ').length).toBeLessThan(500);
  expect(redact('some words', BIG[name]).length).toBeLessThan(50);
});

it.each([1e308, -1e308, 2 ** 53, 1.5, Number.NaN, Number.POSITIVE_INFINITY, -1])(
  'the number %d is refused where a number may stand',
  (value) => {
    for (const field of ['badge', 'expiresAt']) expect(parseNotification({ ...good, [field]: value }).ok).toBe(false);
  },
);

it('more than 20 faults are counted, and not listed one by one', () => {
  const parsed = parseNotification({ ...good, ...manyNames(1_000) });
  expect(parsed.ok ? [] : parsed.faults.map(formatFault).slice(-2)).toEqual([
    'name19: expected no such field, found one',
    'expected no more faults, found 980',
  ]);
});

it('the largest notification that fits is not taken for too large', () => {
  const devices = Array.from({ length: 20 }, (_, index) => ({
    platform: 'fcm',
    token: `${index}-`.padEnd(4_096, 'x'),
  }));
  const data = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`${index}`, 'v']));
  expect(
    parseNotification({ ...good, devices, data, alert: { title: 'x'.repeat(4_096), body: 'x'.repeat(4_096) } }).ok,
  ).toBe(true);
});

it('a worker makes dead letters of jobs of megabytes, with the beginning of their text, and goes on', async () => {
  const { queue, deadQueue, sandbox, startWorker, prefix } = await openWorkerBench();
  const worker = await startWorker();
  const redis = connectRedis();
  const texts = {
    '5MB': JSON.stringify(BIG['a text of 5 MB']),
    devices: JSON.stringify(BIG['10,000 devices']),
    deep: '['.repeat(100_000) + ']'.repeat(100_000),
  };
  for (const [id, text] of Object.entries(texts)) {
    await queue.add('push', {}, { jobId: `big-${id}`, priority: 10, delay: 500 });
    await redis.hset(`${prefix}:notifications:big-${id}`, 'data', text); // what Node's JSON could not write
  }
  await vi.waitFor(async () => expect(await deadQueue.getWaitingCount()).toBe(3), { timeout: 20_000 });
  for (const [id, text] of Object.entries(texts)) {
    const raw = (await redis.hget(`${prefix}:dead-letters:big-${id}`, 'data')) ?? '';
    const { notification, reason, message } = JSON.parse(raw) as {
      notification: unknown;
      reason: string;
      message: string;
    };
    // Too long, or too deep to be written as JSON again.
    expect([id, notification]).toEqual([id, `${text.slice(0, 2_000)}… (${text.length} characters)`]);
    expect(reason).toBe('invalid');
    expect(message.length).toBeLessThan(500);
  }
  await queue.add('push', makeNotification(), { priority: 10 });
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1), { timeout: 10_000 });
  worker.kill('SIGTERM');
  const { code, stdout } = await worker.waitForExit();
  expect(code).toBe(0);
  for (const line of stdout.split('\n')) expect(line.length).toBeLessThan(2_000);
});
