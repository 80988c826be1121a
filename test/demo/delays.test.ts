import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { watchDelays, watchStandstills, WorkerDelays, type Standstill } from '../../demo/delays.ts';
import { latenessOf } from '../../demo/replicas.ts';
import { createMetrics } from '../../src/observe/metrics.ts';
import { entryOf } from '../chaos/facts.ts';

const epochMs = (): number => performance.timeOrigin + performance.now();

/** This process does nothing else for so long. */
function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

describe('the watch of a process', () => {
  it('measures how late the process saw what came while it was busy, and that it is on time else', async () => {
    const watch = watchDelays();
    onTestFinished(() => watch.stop());
    await sleep(50);
    block(100);
    const busy = watch.delayMs(epochMs());
    expect(busy).toBeGreaterThanOrEqual(95);
    expect(busy).toBeLessThan(1_000); // bounded by what it measured, also on a busy machine
    await expect.poll(() => watch.delayMs(epochMs()), { timeout: 5_000, interval: 30 }).toBe(0);
  });

  it('measures small delays too', () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let now = 1_000;
    const watch = watchDelays(undefined, () => now);
    onTestFinished(() => watch.stop());
    const tickAt = (at: number) => {
      now = at;
      vi.advanceTimersByTime(5);
    };
    for (const at of [1_005, 1_010, 1_022]) tickAt(at);
    expect(watch.delayMs(1_009)).toBe(0);
    expect(watch.delayMs(1_022)).toBe(7); // it came after 1,010, and 5 ms of this is what a tick takes
    tickAt(1_027);
    expect(watch.delayMs(1_028)).toBe(0);
  });

  it('measures a standstill, and that the machine stood still', async () => {
    const standstills: Standstill[] = [];
    const stalls: number[] = [];
    const watch = watchDelays(({ ms }) => stalls.push(ms));
    onTestFinished(() => watch.stop());
    watchStandstills((standstill) => standstills.push(standstill));
    await sleep(50);
    const at = epochMs();
    block(100);
    await sleep(50);
    expect(standstills.some(({ from, until }) => from <= at && until >= at + 100)).toBe(true);
    expect(Math.max(...stalls)).toBeGreaterThanOrEqual(90);
  });
});

describe('the delays of workers', () => {
  const passOf = (id: string, outcome = 'delivered') => JSON.stringify({ jobId: id, id, outcome });
  const standstillOf = (from: number, until: number) => JSON.stringify({ msg: 'standstill', from, until });
  const delaysOf = (...lines: (readonly [worker: string, line: string])[]): WorkerDelays => {
    const delays = new WorkerDelays();
    for (const line of lines) delays.note(...line);
    return delays;
  };
  const delayOf = (delays: WorkerDelays, at: number, delayMs = 0) =>
    delays.counted([entryOf('a', at, { delayMs })], () => 'a')[0]?.delayMs;

  it('count from the instant at which the worker may have looked at the clock', () => {
    const delays = delaysOf(['1', standstillOf(1_000, 1_080)], ['1', passOf('a')]);
    expect(delayOf(delays, 1_085)).toBe(85);
    expect(delayOf(delays, 1_050)).toBe(50);
    expect(delayOf(delays, 1_085, 5)).toBe(85);
  });

  it('are none where the alert came before, or later than the way takes', () => {
    const delays = delaysOf(['1', standstillOf(1_000, 1_080)], ['1', passOf('a')]);
    expect(delayOf(delays, 999)).toBe(0);
    expect(delayOf(delays, 1_091)).toBe(0);
    expect(delayOf(delays, 1_100, 15)).toBe(100); // it may have arrived at 1,085
  });

  it('are those of the worker that sent it, and of no other one', () => {
    const other = delaysOf(['2', standstillOf(1_000, 1_080)], ['1', passOf('a')], ['2', passOf('a', 'requeued')]);
    expect(delayOf(other, 1_085, 3)).toBe(3);
  });

  it('are those of a worker too that was killed before it could say that it sent it', () => {
    const delays = delaysOf(['1', standstillOf(1_000, 1_080)], ['2', passOf('a')]);
    expect(delayOf(delays, 1_085)).toBe(0);
    const killed = (id: string, at: number) => (id === 'a' && at < 1_090 ? ['1'] : []);
    const counted = (at: number) => delays.counted([entryOf('a', at, {})], () => 'a', killed)[0]?.delayMs;
    expect([counted(1_085), counted(1_091)]).toEqual([85, 0]);
  });

  it('go over two turns of the event loop', () => {
    const turns = [standstillOf(900, 950), standstillOf(950, 1_000), standstillOf(1_000, 1_080)];
    const delays = delaysOf(['1', passOf('a')], ...turns.map((line) => ['1', line] as const));
    expect(delayOf(delays, 1_090)).toBe(140);
  });

  it('leave out what was done on purpose, and half a line', () => {
    const delays = delaysOf(['1', standstillOf(1_000, 3_000)], ['1', passOf('a')], ['1', '{"msg":"standstill","fro']);
    delays.forget('1', { from: 1_010, until: 2_990 });
    expect(delayOf(delays, 3_005)).toBe(0);
    expect(delays.standstillsMs(0)).toEqual([]);
  });
});

it('late wake-ups are counted over all workers, from their pages', async () => {
  const pages = await Promise.all(
    [[50, 91], [90, 310, 100], []].map(async (wakes) => {
      const metrics = createMetrics({
        lateAfterMs: 90,
        breakersOpenMs: () => [],
        unreachableMs: () => [],
      });
      for (const lateMs of wakes) metrics.woken(lateMs);
      return metrics.registry.metrics();
    }),
  );
  expect(latenessOf([...pages, ''])).toEqual({ lateWakes: 3, mostLateMs: 310 });
});
