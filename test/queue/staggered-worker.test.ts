import { Queue, Worker } from 'bullmq';
import { expect, onTestFinished, test, vi } from 'vitest';
import { QUEUE } from '../../src/queue/names.ts';
import { StaggeredWorker, staggerMs } from '../../src/queue/staggered-worker.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

test('who had a job is there at the instant, who finds nothing stays back more and more', () => {
  expect([0, 1, 2, 3, 7, 8, 9, 50].map(staggerMs)).toEqual([0, 4, 8, 16, 256, 500, 500, 500]);
});

test('a round that ends before the due instant is none, however many there were', () => {
  const worker = new CountedStaggered(QUEUE, () => Promise.resolve(), { connection: connectRedis(), autorun: false });
  onTestFinished(() => worker.close());
  worker.on('error', () => undefined);
  for (let rounds = 0; rounds < 20; rounds++) expect(worker.blockFor(Date.now() + 600_000)).toBe(10);
  expect(worker.blockFor(Date.now() + 1_000)).toBeLessThanOrEqual(1);
});

/** Each opens up what is counted: how often it is about to wait for the next due instant. */
class CountedPlain extends Worker {
  rounds = 0;

  protected override getBlockTimeout(blockUntil: number): number {
    if (blockUntil > 0) this.rounds++;
    return super.getBlockTimeout(blockUntil);
  }
}
class CountedStaggered extends StaggeredWorker {
  rounds = 0;

  blockFor(blockUntil: number): number {
    return this.getBlockTimeout(blockUntil);
  }

  protected override getBlockTimeout(blockUntil: number): number {
    if (blockUntil > 0) this.rounds++;
    return super.getBlockTimeout(blockUntil);
  }
}

/** A dozen workers and 40 delayed jobs, 100 ms apart: how often they woke, and how late the jobs were. */
async function runJobs(
  kind: typeof CountedPlain | typeof CountedStaggered,
): Promise<{ rounds: number; lateMs: number[] }> {
  const connection = connectRedis();
  const prefix = testPrefix();
  const queue = new Queue(QUEUE, { connection, prefix });
  const lateMs: number[] = [];
  const process = (job: { timestamp: number; opts: { delay?: number } }) =>
    Promise.resolve(lateMs.push(Date.now() - job.timestamp - (job.opts.delay ?? 0)));
  const options = { prefix, concurrency: 10, drainDelay: 1 };
  const workers = Array.from(
    { length: 12 },
    () => new kind(QUEUE, process, { ...options, connection: connectRedis() }),
  );
  onTestFinished(async () => {
    await Promise.all(workers.map((worker) => worker.close()));
    await queue.close();
  });
  await Promise.all(workers.map((worker) => worker.waitUntilReady()));
  await queue.addBulk(
    Array.from({ length: 40 }, (_, n) => ({ name: 'push', data: {}, opts: { delay: 500 + 100 * n } })),
  );
  await vi.waitFor(() => expect(lateMs).toHaveLength(40), { timeout: 20_000 });
  return { rounds: workers.reduce((sum, worker) => sum + worker.rounds, 0), lateMs };
}

test('of many idle workers, fewer wake for each delayed job than of plain ones, and none is late by half a second', async () => {
  const plain = await runJobs(CountedPlain);
  const staggered = await runJobs(CountedStaggered);
  expect(plain.rounds).toBeGreaterThan(40 * 6);
  expect(staggered.rounds).toBeLessThan(0.8 * plain.rounds);
  expect(Math.max(...staggered.lateMs)).toBeLessThan(500);
});
