import { describe, expect, it } from 'vitest';
import { govern, nextConcurrency } from '../../workers/governor.ts';

describe('nextConcurrency', () => {
  it('grows by a quarter while the loop turns on time, up to the most', () => {
    expect([2, 3, 40, 50].map((current) => nextConcurrency(current, 1, 50))).toEqual([3, 4, 50, 50]);
  });

  it('halves when the loop is late, but never to nothing', () => {
    expect([50, 3, 1].map((current) => nextConcurrency(current, 11, 50))).toEqual([25, 1, 1]);
  });
});

it('begins low, and follows the event loop', async () => {
  const worker = { concurrency: 50 };
  const governor = govern([worker], 8);
  try {
    expect(worker.concurrency).toBe(1);
    await expect.poll(() => worker.concurrency, { interval: 20, timeout: 10_000 }).toBe(8);
    const until = performance.now() + 120;
    while (performance.now() < until); // a busy loop
    await expect.poll(() => worker.concurrency, { interval: 1, timeout: 5_000 }).toBeLessThan(8);
  } finally {
    governor.stop();
  }
});
