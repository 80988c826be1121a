import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { Registry } from 'prom-client';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createClockMetrics } from '../../src/observe/shared-metrics.ts';
import { measureClockOffset, type ClockChange } from '../../src/queue/clock-offset.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { waitFor } from '../support/wait.ts';
import { openQueues, stepClock } from './support.ts';

describe('the clock offset', () => {
  test('follows a clock that is stepped, and reports once that they differ and once that they agree again', async () => {
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
    expect(Math.abs(clock.offsetMs)).toBeLessThan(100);
    expect(changes).toEqual([]);
    step(60_000);
    await waitFor(() => expect(changes).toHaveLength(1));
    step(60_000);
    expect(clock.offsetMs).toBeLessThan(-119_000);
    step(-120_000);
    await waitFor(() => expect(changes).toHaveLength(2));
    expect(Math.abs(clock.offsetMs)).toBeLessThan(1_000);
    expect(changes.map(({ isApart }) => isApart)).toEqual([true, false]);
  });

  test.for([60_000, -60_000])('is right at once where this machine’s clock is set by %i ms', async (byMs) => {
    const { queue } = openQueues();
    const step = stepClock();
    const clock = measureClockOffset({ queue });
    onTestFinished(() => clock.close());
    await clock.measured;
    const realNow = Date.now();
    step(byMs);
    expect(Math.abs(clock.offsetMs + byMs)).toBeLessThan(100);
    expect(Math.abs(clock.now() - realNow)).toBeLessThan(1_000);
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
    expect(Math.abs(clock.offsetMs)).toBeLessThanOrEqual(1);
  });
});

test('the metric of the clock offset shows the queue whose Redis is furthest away', async () => {
  const registry = new Registry();
  let offsetsMs: readonly number[] = [];
  createClockMetrics(registry, () => offsetsMs);
  expect(await registry.metrics()).toContain('pushpacer_clock_offset_seconds 0\n');
  offsetsMs = [20, -61_500, 300];
  expect(await registry.metrics()).toContain('pushpacer_clock_offset_seconds -61.5\n');
});
