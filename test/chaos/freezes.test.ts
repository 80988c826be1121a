import { describe, expect, it } from 'vitest';
import { stopsWithoutRedis, thawsOf, type Freeze } from '../../../chaos/fleet.ts';
import type { LogLine } from '../../../chaos/logs.ts';

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
const ready = (...workerIds: string[]) => [
  { at: 500, workerIds },
  { at: 1_600, id: 'c' },
];

describe('what a frozen worker had in hand', () => {
  it('is what is locked under one of the ids that it logged when it was ready', () => {
    expect(thawOf(ready('first'))?.ids).toEqual(new Set(['a', 'b']));
    expect(thawOf(ready('second', 'third'))?.ids).toEqual(new Set(['c', 'd']));
    expect(thawOf(ready('third'))?.ids).toEqual(new Set());
  });

  it('is nothing where Redis did not tell, or the worker left no log', () => {
    expect(thawOf(ready('first'), { holders: new Map() })?.ids).toEqual(new Set());
    expect(thawOf(ready('first'), { log: 'worker-2.log' })?.ids).toEqual(new Set());
  });
});

it('may arrive from the thaw until a moment after it', () => {
  const { from = 0, until = 0 } = thawOf(ready('first')) ?? {};
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
