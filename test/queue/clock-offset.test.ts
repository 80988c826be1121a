import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { Registry } from 'prom-client';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createClockMetrics } from '../../src/observe/metrics.ts';
import { dueAtOfScore } from '../../src/queue/bullmq-internals.ts';
import { measureClockOffset, type ClockChange } from '../../src/queue/clock-offset.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { openWorkerBench } from '../support/worker.ts';
import { notification, openQueues, present } from './support.ts';

/** Steps this process's clock, but not Redis's, until the test ends. */
function stepClock(): (byMs: number) => void {
  const now = Date.now;
  let shiftMs = 0;
  const spy = vi.spyOn(Date, 'now').mockImplementation(() => now() + shiftMs);
  onTestFinished(() => {
    spy.mockRestore();
  });
  return (byMs) => {
    shiftMs += byMs;
  };
}

test('is 0 where the clocks are one', async () => {
  const clock = measureClockOffset({ queue: openQueues().queue, everyMs: 5 });
  onTestFinished(() => {
    clock.close();
  });
  await clock.measured;
  expect(Math.abs(clock.offsetMs)).toBeLessThan(100);
});

test('follows a clock that is stepped, and tells once that they differ and once that they agree again', async () => {
  const changes: ClockChange[] = [];
  const step = stepClock();
  const clock = measureClockOffset({
    queue: openQueues().queue,
    everyMs: 5,
    onChange: (change) => changes.push(change),
  });
  onTestFinished(() => {
    clock.close();
  });
  await clock.measured;
  expect(changes).toEqual([]);
  step(60_000);
  await waitFor(() => expect(clock.offsetMs).toBeLessThan(-59_000));
  step(60_000);
  await waitFor(() => expect(clock.offsetMs).toBeLessThan(-119_000));
  step(-120_000);
  await waitFor(() => expect(Math.abs(clock.offsetMs)).toBeLessThan(1_000));
  expect(changes.map(({ isApart }) => isApart)).toEqual([true, false]);
});

test('stays what it was where Redis gives no answer', async () => {
  const connection = new Redis({ port: 1, retryStrategy: () => null, maxRetriesPerRequest: 0 });
  connection.on('error', () => undefined);
  const queue = new Queue(QUEUE, { connection, skipMetasUpdate: true });
  queue.on('error', () => undefined);
  onTestFinished(() => {
    connection.disconnect();
  });
  const clock = measureClockOffset({ queue });
  await clock.measured;
  clock.close();
  expect(clock.offsetMs).toBe(0);
});

test('the metric tells the queue whose Redis is furthest away', async () => {
  const registry = new Registry();
  let offsetsMs: readonly number[] = [];
  createClockMetrics(registry, () => offsetsMs);
  expect(await registry.metrics()).toContain('pushpacer_clock_offset_seconds 0\n');
  offsetsMs = [20, -61_500, 300];
  expect(await registry.metrics()).toContain('pushpacer_clock_offset_seconds -61.5\n');
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
  { name: 'a minute ahead, and one that is right,', shiftsMs: [60_000, 0] },
  { name: 'a minute behind, and one that is right,', shiftsMs: [-60_000, 0] },
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
