import { describe, expect, it } from 'vitest';
import { stopsWithoutRedis, thawsOf, type Freeze } from '../../../scripts/chaos/run/freezes.ts';
import type { LogLine } from '../../../scripts/chaos/run/logs.ts';

const freeze: Freeze = {
  log: 'worker-1.log',
  at: 1_000,
  forMs: 500,
  thawedAt: 1_520,
  holders: new Map([
    ['a', 'first'],
    ['b', 'first'],
    ['c', 'second'],
    ['d', 'second'],
  ]),
};
const thawOf = (log: readonly LogLine[], more: Partial<Freeze> = {}) =>
  thawsOf([{ ...freeze, ...more }], new Map([['worker-1.log', log]]))[0];
const told = (...ids: string[]) => ids.map((id) => ({ at: 1_600, id }));

describe('what a frozen worker had in hand', () => {
  it("is what the holder has whose jobs the worker's log tells of after the thaw", () => {
    expect(thawOf(told('a', 'b'))?.ids).toEqual(new Set(['a', 'b']));
    expect(thawOf(told('c', 'd', 'a'))?.ids).toEqual(new Set(['c', 'd']));
  });

  it('is nothing where that is not clear', () => {
    expect(thawOf([])?.ids).toEqual(new Set());
    expect(thawOf(told('a', 'b', 'c', 'd'))?.ids).toEqual(new Set());
    expect(thawOf(told('a'))?.ids).toEqual(new Set()); // half of one holder's
    expect(thawOf(told('x'))?.ids).toEqual(new Set());
  });

  it('is nothing of what the worker told before the freeze, or long after it', () => {
    expect(
      thawOf([
        { at: 900, id: 'a' },
        { at: 900, id: 'b' },
      ])?.ids,
    ).toEqual(new Set());
    expect(
      thawOf([
        { at: 60_000, id: 'a' },
        { at: 60_000, id: 'b' },
      ])?.ids,
    ).toEqual(new Set());
  });

  it('is nothing where Redis did not tell, or the worker left no log', () => {
    expect(thawOf(told('a', 'b'), { holders: new Map() })?.ids).toEqual(new Set());
    expect(thawOf(told('a', 'b'), { log: 'worker-2.log' })?.ids).toEqual(new Set());
  });
});

it('may arrive from the thaw until a moment after it', () => {
  const { from = 0, until = 0 } = thawOf(told('a', 'b')) ?? {};
  expect(from).toBe(1_500);
  expect(until).toBeGreaterThan(1_520);
  expect(until).toBeLessThanOrEqual(1_520 + 500);
});

describe('a freeze while Redis was away', () => {
  const silent: Freeze = { ...freeze, forMs: 5_000, thawedAt: 6_020, holders: new Map() };
  const log = [
    { at: 900, id: 'before' },
    { at: 6_030, id: 'a' },
    { at: 6_040 },
    { at: 9_000, id: 'b' },
    { at: 60_000, id: 'long-after' },
  ];
  const stops = (one: Freeze) => stopsWithoutRedis([one], new Map([['worker-1.log', log]]));

  it('interrupted what the worker tells of after the thaw', () => {
    expect(stops(silent)).toEqual([{ kind: 'stop', at: 1_000, until: 1_000, ids: new Set(['a', 'b']) }]);
  });

  it('is told by Redis where Redis could, and harmless where it was short', () => {
    expect(stops({ ...silent, holders: freeze.holders })).toEqual([]);
    expect(stops({ ...silent, forMs: 500 })).toEqual([]);
  });
});
