import { expect, it } from 'vitest';
import { BEHIND_MS, createComeBack, LEAST_MS } from '../../src/pause/come-back.ts';

const NOW = 1_000_000;
const UNTIL = NOW + 30_000;
const PAUSE = { since: NOW, until: UNTIL };
const LONG_AGO = 0;

it('brings one back when the pause is over, to be the probe, all others behind them, in order, a thousand for each millisecond', () => {
  const comeBack = createComeBack();
  const times = Array.from({ length: 5_001 }, () => comeBack.next(PAUSE, LONG_AGO, NOW));
  expect(times.slice(0, 2)).toEqual([UNTIL, UNTIL + BEHIND_MS]);
  expect(times.at(-1)).toBe(UNTIL + BEHIND_MS + 4);
  expect(times).toEqual(times.toSorted((one, other) => one - other));
  for (const at of new Set(times.slice(1))) expect(times.filter((time) => time === at)).toHaveLength(1_000);
});

it('brings the others back in the order in which they were enqueued, however they were kept', () => {
  const comeBack = createComeBack();
  const enqueued = [3_000, 1_000, 0, 2_000, -5_000, 60_000].map((after) => NOW + after);
  comeBack.next(PAUSE, LONG_AGO, NOW);
  const back = enqueued.map((at) => ({ at, back: comeBack.next(PAUSE, at, NOW) }));
  const order = back.toSorted((one, other) => one.back - other.back).map(({ at }) => at);
  expect(order).toEqual(enqueued.toSorted((one, other) => one - other));
  expect(Math.max(...back.map((each) => each.back))).toBeLessThan(UNTIL + BEHIND_MS + 4_000);
});

it('has nobody be the probe who came after the trouble began', () => {
  const comeBack = createComeBack();
  expect(comeBack.next(PAUSE, NOW + 1, NOW)).toBeGreaterThanOrEqual(UNTIL + BEHIND_MS);
  expect(comeBack.next(PAUSE, NOW, NOW)).toBe(UNTIL);
});

it('keeps the order of those that come while it is probed', () => {
  const comeBack = createComeBack();
  const before = Array.from({ length: 10 }, () => comeBack.next(PAUSE, LONG_AGO, NOW));
  const during = Array.from({ length: 10 }, (_, ms) => comeBack.next(PAUSE, LONG_AGO, UNTIL + ms));
  const all = [...before, ...during];
  expect(all).toEqual(all.toSorted((one, other) => one - other));
  expect(during[0]).toBe(UNTIL + BEHIND_MS);
});

it('gives a longer pause its probe again', () => {
  const comeBack = createComeBack();
  for (let kept = 0; kept < 10; kept++) comeBack.next(PAUSE, LONG_AGO, NOW);
  comeBack.reset();
  expect(comeBack.next({ ...PAUSE, until: UNTIL + 5_000 }, LONG_AGO, NOW)).toBe(UNTIL + 5_000);
});

it('lets nothing come back at once, whatever is over or open', () => {
  const comeBack = createComeBack();
  const over = (until: number) => ({ since: NOW - 10, until });
  expect(comeBack.next(undefined, LONG_AGO, NOW)).toBe(NOW + LEAST_MS);
  expect(comeBack.next(over(NOW - 5), LONG_AGO, NOW)).toBe(NOW + LEAST_MS);
  comeBack.reset();
  expect(comeBack.next(over(NOW + 1), LONG_AGO, NOW)).toBe(NOW + LEAST_MS);
});
