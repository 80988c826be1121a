import { expect, test } from 'vitest';
import { FLOOD, runFlood, type FloodFigures } from '../../../bench/pacing/rows.ts';
import { ownRedis } from '../../support/fault-bench.ts';
import { measured, type Measurement } from '../../support/measured.ts';

/** The promise for a recipient with many notifications: the time over the shortest that the limits allow, and passes of each. */
const MOST_RATIO = 1.03;
const MOST_PASSES = 2.05;

const CASES = [50, 200].flatMap((concurrency) => [
  { concurrency, proxied: false, where: 'direct' },
  { concurrency, proxied: true, where: 'behind a relay of 2 ms' },
]);

test.each(CASES)(
  `${FLOOD.busy} to one recipient keep their gap and lose no time amid ${FLOOD.others} others: $concurrency at once, Redis $where`,
  { timeout: 240_000 },
  async ({ concurrency, proxied }) => {
    const redis = await ownRedis();
    const { figures } = await measured(async (): Promise<Measurement & { readonly figures: FloodFigures }> => {
      const run = await runFlood(redis.url, FLOOD, { concurrency, proxied, warm: true });
      return { figures: run, isClean: run.violations === 0, stalls: [run.stallMs] };
    });
    expect(figures).toMatchObject({ violations: 0, duplicates: 0, lost: 0 });
    expect(figures.wakeUps).toBeGreaterThan(FLOOD.busy / 2); // else hardly anything waited, and nothing was shown
    // On a machine that wakes workers later than the late tolerance, slots are lost, and nobody promised otherwise.
    if (figures.tooLate > 0) {
      process.stderr.write(`not judged by time: ${figures.tooLate} wake-ups may have been too late\n`);
      return;
    }
    expect(figures.ratio).toBeLessThanOrEqual(MOST_RATIO);
    expect(figures.passes).toBeLessThanOrEqual(MOST_PASSES);
  },
);
