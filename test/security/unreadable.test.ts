import type { Queue } from 'bullmq';
import { expect, it, vi } from 'vitest';
import { parseNotification } from '../../src/notification/notification.ts';
import { MAX_JOB_TEXT, unreadableFault } from '../../src/queue/readable.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { connectRedis } from '../support/redis.ts';
import { openWorkerBench, type WorkerBench } from '../support/worker.ts';
import { waitFor } from '../support/wait.ts';

/** What other clients were seen to write, or a hand at redis-cli: the field of the job's hash and its text. */
const POISON: readonly (readonly [name: string, field: string, text: string])[] = [
  ['NaN, as old BullMQ for Python writes it', 'data', '{"id":"n","recipientId":"r","data":{"grade":NaN}}'],
  ['data that was cut off', 'data', '{"id":"n","recipientId":"r","devices":[{"platform":"apns","token":"secret-to'],
  ['no JSON at all', 'data', 'secret-token'],
  ['options that are cut off', 'opts', '{"attempts":'],
  ['options that are null', 'opts', 'null'],
  ['options that are a number', 'opts', '5'],
  ['progress that is no JSON', 'progress', '{"tries":'],
];

/** Adds a job whose field has this text, as no client of BullMQ would. */
async function addPoison(
  { queue, prefix }: Pick<WorkerBench, 'queue' | 'prefix'>,
  id: string,
  field: string,
  text: string,
) {
  await queue.add('push', { ...makeNotification(), id }, { jobId: id, priority: 10 });
  await connectRedis().hset(`${prefix}:notifications:${id}`, field, text);
}

interface Letter {
  readonly reason: string;
  readonly message: string;
  readonly notification: unknown;
}

async function lettersOf(deadQueue: Queue, count: number): Promise<readonly Letter[]> {
  await vi.waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBe(count), { timeout: 15_000 });
  return (await deadQueue.getJobs(['wait'])).map(({ data }) => data as Letter);
}

it('what BullMQ cannot read is a dead letter at the first look, with the beginning of its text', async () => {
  const bench = await openWorkerBench();
  for (const [index, [, field, text]] of POISON.entries()) await addPoison(bench, `poison-${index}`, field, text);
  const worker = await bench.startWorker();
  const letters = await lettersOf(bench.deadQueue, POISON.length);
  const messages = letters.map(({ reason, message }) => `${reason}: ${message}`);
  expect(messages.toSorted()).toEqual([
    'invalid: expected job data in JSON, found 12 characters that are not',
    'invalid: expected job data in JSON, found 49 characters that are not',
    'invalid: expected job data in JSON, found 76 characters that are not from character 77 on',
    'invalid: expected job opts in JSON, found 1 character that is not',
    'invalid: expected job opts in JSON, found 12 characters that are not',
    'invalid: expected job opts in JSON, found 4 characters that are not',
    'invalid: expected job progress in JSON, found 9 characters that are not',
  ]);
  expect(letters.map(({ notification }) => notification)).toContain('secret-token');
  expect(worker.stdout()).not.toContain('secret-to');
  expect(worker.stdout()).not.toMatch(/stalled|second time|"level":"error"/);
});

it('50 of them delay nobody', async () => {
  const bench = await openWorkerBench();
  const good = Array.from({ length: 20 }, (_, n) => makeNotification({ recipientId: `teacher-${n}` }));
  for (const [index, notification] of good.entries()) {
    for (const n of [0, 1, 2]) await addPoison(bench, `poison-${index}-${n}`, 'data', 'NaN');
    await bench.queue.add('push', notification, { jobId: notification.id, priority: 10 });
  }
  await bench.startWorker();
  const readyAt = Date.now();
  await vi.waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(20), { timeout: 15_000 });
  const lastMs = Math.max(...bench.sandbox.journal.accepted.map(({ at }) => at)) - readyAt;
  expect(lastMs).toBeLessThan(5_000); // it was 25 s
  await lettersOf(bench.deadQueue, 60);
});

it('12 MB with a million keys are refused before they are read, and nobody reads them as a dead letter', async () => {
  const bench = await openWorkerBench();
  const text = `{"data":{${Array.from({ length: 1_000_000 }, (_, n) => `"k${n}":1`).join(',')}}}`;
  expect(text.length).toBeGreaterThan(10_000_000);
  await addPoison(bench, 'big', 'data', text);
  const device = makeDevice();
  await bench.queue.add('push', makeNotification({ devices: [device] }), { priority: 10 });
  const worker = await bench.startWorker({ DEAD_LETTER_MAX_AGE: '1h' });
  const [letter] = await lettersOf(bench.deadQueue, 1);
  expect(letter?.message).toBe(`expected job data of at most ${MAX_JOB_TEXT} characters, found ${text.length}`);
  expect(String(letter?.notification)).toMatch(/^\{"data":\{"k0":1,.{1900,2100} \(\d+ characters\)$/);
  await waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(1));
  const metrics = await (await fetch(`${worker.url.replace(/\/metrics$/, '')}/metrics`)).text();
  expect(Number(/nodejs_eventloop_lag_max_seconds ([\d.e-]+)/.exec(metrics)?.[1])).toBeLessThan(1);
});

it('takes no other data for what a worker wrote in place of what it cannot read', () => {
  for (const given of [undefined, null, 5, 'text', [], {}, { $unreadable: 5 }])
    expect(unreadableFault(given)).toBeUndefined();
  expect(parseNotification({ $unreadable: { expected: 'a', found: 'b' } }).ok).toBe(false);
});
