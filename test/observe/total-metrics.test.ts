import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { createLossMetrics } from '../../src/observe/shared-metrics.ts';
import { createTotalMetrics, type TotalMetrics, type WorkerMetrics } from '../../src/observe/total-metrics.ts';

/** The metrics of a worker that delivered so many, has so many jobs in hand, and asks the same Redis as all. */
async function workerOf(delivered: number, inHand: number, redisBytes: number): Promise<WorkerMetrics> {
  const registry = new Registry();
  const registers = [registry];
  new Counter({ name: 'passes_total', help: 'h', labelNames: ['result'], registers }).inc(
    { result: 'delivered' },
    delivered,
  );
  const took = new Histogram({ name: 'took_seconds', help: 'h', buckets: [0.1, 1], registers });
  for (let each = 0; each < delivered; each++) took.observe(0.5);
  new Counter({ name: 'opened_total', help: 'h', aggregator: 'omit', registers }).inc(delivered);
  new Gauge({ name: 'in_hand', help: 'h', registers }).set(inHand);
  new Gauge({ name: 'lag', help: 'h', aggregator: 'average', registers }).set(NaN);
  new Gauge({ name: 'redis_bytes', help: 'h', aggregator: 'max', registers }).set(redisBytes);
  new Counter({ name: 'evicted_total', help: 'h', aggregator: 'max', registers }).inc(redisBytes);
  const metrics = (await registry.getMetricsAsJSON()) as unknown as WorkerMetrics['metrics'];
  return { registryId: `${delivered} ${inHand}`, metrics };
}

const linesOf = async (totals: TotalMetrics, ...answering: number[]): Promise<string[]> =>
  (await totals.page(new Set(answering)).metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));

it('sums counters and histograms, shows once what all workers share, and labels the rest with the worker', async () => {
  const totals = createTotalMetrics();
  totals.note(1, await workerOf(3, 5, 100));
  totals.note(2, await workerOf(4, 6, 90));
  expect((await linesOf(totals, 1, 2)).toSorted()).toEqual(
    [
      ...['passes_total{result="delivered"} 7'],
      ...['took_seconds_bucket{le="0.1"} 0', 'took_seconds_bucket{le="1"} 7', 'took_seconds_bucket{le="+Inf"} 7'],
      ...['took_seconds_sum 3.5', 'took_seconds_count 7'],
      ...['opened_total{worker="1"} 3', 'opened_total{worker="2"} 4'],
      ...['in_hand{worker="1"} 5', 'in_hand{worker="2"} 6', 'lag{worker="1"} Nan', 'lag{worker="2"} Nan'],
      ...['redis_bytes 100', 'evicted_total 100'],
    ].toSorted(),
  );
});

it('keeps the sums of workers that ended, however often, and nothing else of them', async () => {
  const totals = createTotalMetrics();
  const sums = async (...answering: number[]) =>
    (await linesOf(totals, ...answering)).filter((line) => /^(passes_total|took_seconds_count)/.test(line));
  totals.note(1, await workerOf(3, 5, 100));
  totals.note(2, await workerOf(4, 6, 90));
  expect(await sums(1)).toEqual(['passes_total{result="delivered"} 7', 'took_seconds_count 7']);
  expect((await linesOf(totals, 1)).join()).not.toContain('worker="2"');
  expect(await linesOf(totals, 2)).toContain('redis_bytes 90');
  totals.note(2, await workerOf(0, 1, 80)); // another process
  expect(await sums(1, 2)).toEqual(['passes_total{result="delivered"} 7', 'took_seconds_count 7']);
  totals.note(2, await workerOf(2, 1, 80)); // and another one
  totals.note(1, await workerOf(1, 1, 80));
  expect(await sums(1, 2)).toEqual(['passes_total{result="delivered"} 10', 'took_seconds_count 10']);
  expect(await linesOf(totals, 1, 2)).toContain('in_hand{worker="1"} 1');
  expect(await linesOf(totals)).not.toContain('redis_bytes');
});

it('shows the losses that each worker noticed, since one that was started later has noticed fewer', async () => {
  const totals = createTotalMetrics();
  for (const worker of [1, 2]) {
    const registry = new Registry();
    const count = createLossMetrics(registry, ['queue']);
    if (worker === 1) count('queue', 'emptied');
    const metrics = (await registry.getMetricsAsJSON()) as unknown as WorkerMetrics['metrics'];
    totals.note(worker, { registryId: `${worker}`, metrics });
  }
  const losses = async (...answering: number[]) =>
    (await linesOf(totals, ...answering)).filter((line) => line.includes('emptied'));
  const [first, second] = [1, 0].map(
    (times, at) => `pushpacer_redis_losses_total{redis="queue",kind="emptied",worker="${at + 1}"} ${times}`,
  );
  expect(await losses(1, 2)).toEqual([first, second]);
  expect(await losses(2)).toEqual([second]);
});
