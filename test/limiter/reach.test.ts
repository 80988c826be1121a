import { describe, expect, it } from 'vitest';
import { averageAsks, overtakenBy, passAll, seeded, type CrowdJob, type Passed } from '../contract/crowd.ts';
import { atMost, gapOf, Trial } from '../contract/trial.ts';
import { BOTH } from './both.ts';
import { expectKept } from './kept.ts';

const GAP_MS = 300;
const TOLERANCE_MS = 270;
/** Of a hundred wake-ups five are late, by up to half a second. */
const LATE = { share: 0.05, mostMs: 500 };

function crowd(count: number, seed?: number): CrowdJob[] {
  const random = seeded(seed ?? 0);
  const late = () => (random() < LATE.share ? Math.round(LATE.mostMs * random()) : 0);
  const lateMs = seed === undefined ? () => 0 : late;
  return Array.from({ length: count }, (_, index) => ({ id: `j${index}`, asksAt: 0, lateMs }));
}

const last = (passed: readonly Passed[]) => Math.max(...passed.map(({ at }) => at));

describe.each(BOTH)('a crowd that waits for one recipient, %s', (_, create) => {
  it.each([80, 200, 500])(
    'of %i that all come back in time asks twice, in order, without a moment lost',
    async (count) => {
      const jobs = crowd(count);
      const passed = await passAll(new Trial(create, gapOf(GAP_MS)), jobs);
      expect(passed.reduce((sum, { asks }) => sum + asks, 0)).toBe(2 * count - 1);
      expect(passed.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
      expect(last(passed)).toBe((count - 1) * GAP_MS);
    },
  );

  it.each([80, 200, 500])(
    'of %i, a few of them late, loses one slot and one ask for each that is too late',
    async (count) => {
      let [asks, lost, makespans] = [0, 0, 0];
      const seeds = [1, 2, 3];
      for (const seed of seeds) {
        const jobs = crowd(count, seed);
        const passed = await passAll(new Trial(create, gapOf(GAP_MS)), jobs);
        expectKept(
          gapOf(GAP_MS),
          passed.map(({ at }) => at),
        );
        const tooLate = passed.flatMap(({ lateMsOf }) => lateMsOf).filter((ms) => ms > TOLERANCE_MS).length;
        expect(passed.reduce((sum, each) => sum + each.asks, 0)).toBeLessThanOrEqual(2 * count - 1 + tooLate);
        expect(last(passed)).toBeLessThanOrEqual((count - 1 + tooLate) * GAP_MS + LATE.mostMs);
        // Those who asked twice and were in time have kept their order.
        const kept = passed.filter((each) => each.asks === 2 && Math.max(...each.lateMsOf) <= TOLERANCE_MS);
        const overtaken = overtakenBy(jobs, passed);
        expect(kept.length).toBeGreaterThan(0.8 * count);
        expect(kept.filter(({ id }) => overtaken.get(id) !== 0)).toEqual([]);
        asks += averageAsks(passed);
        lost += tooLate / count;
        makespans += last(passed) / ((count - 1) * GAP_MS);
      }
      expect(lost / seeds.length).toBeGreaterThan(0.01); // else nothing was shown
      expect(asks / seeds.length).toBeLessThanOrEqual(2.04);
      expect(makespans / seeds.length).toBeLessThanOrEqual(1.01 + lost / seeds.length);
    },
  );
});

/** 200 of a category that is allowed once in 5 s ask at once; others come all the time, so many milliseconds apart. */
function busy(everyMs: number, firstAt: number): readonly [CrowdJob[], CrowdJob[]] {
  const category = 'messages';
  const held = Array.from({ length: 200 }, (_, index) => ({ id: `m${index}`, asksAt: 0, category }));
  const count = Math.ceil(1_200_000 / everyMs);
  const others = Array.from({ length: count }, (_, index) => ({ id: `o${index}`, asksAt: firstAt + index * everyMs }));
  return [held, others];
}

describe.each(BOTH)('a category that is held back while the recipient is busy, %s', (where, create) => {
  /** The asks of each are two if the others leave it room within the tolerance. */
  const cases = [
    [2_000, 0, 3],
    [2_000, 150, 2],
    [2_000, 700, 2],
    [1_050, 0, 3],
    [1_050, 525, 3],
  ] as const;
  const tried = where === 'in memory' ? cases : cases.slice(1, 4);

  it.each(tried)('others come every %i ms, from %i ms on: it asks %i times', async (everyMs, firstAt, mostAsks) => {
    const [held, others] = busy(everyMs, firstAt);
    const trial = new Trial(create, gapOf(1_000), { categories: { messages: atMost(1, 5_000) } });
    const passed = await passAll(trial, [...held, ...others]);
    const ofCategory = passed.filter(({ category }) => category !== undefined);
    expect(ofCategory).toHaveLength(200);
    expectKept(
      atMost(1, 5_000),
      ofCategory.map(({ at }) => at),
    );
    expectKept(
      gapOf(1_000),
      passed.map(({ at }) => at),
    );
    expect(Math.max(...ofCategory.map(({ asks }) => asks))).toBe(mostAsks);
    expect(last(ofCategory)).toBeLessThanOrEqual(1_150_000);
    // No one without a category ever comes back in vain.
    expect(
      Math.max(...passed.filter(({ category }) => category === undefined).map(({ asks }) => asks)),
    ).toBeLessThanOrEqual(2);
  });
});
