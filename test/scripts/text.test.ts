import { expect, it } from 'vitest';
import { fromNow, policyText, span } from '../../scripts/support/text.ts';

it.each([
  [0, '0ms'],
  [950, '950ms'],
  [999.6, '1s'],
  [1_000, '1s'],
  [12_340, '12.3s'],
  [59_940, '59.9s'],
  [59_960, '1m'],
  [60_000, '1m'],
  [61_400, '1m 1s'],
  [3_599_600, '1h'],
  [7_200_000, '2h'],
  [7_260_000, '2h 1m'],
  [86_399_999, '1d'],
  [90_000_000, '1d 1h'],
  [31_622_400_000, '366d'],
])('%d ms are %s', (ms, text) => expect(span(ms)).toBe(text));

it('tells both ways from now', () => {
  expect([fromNow(5, 5), fromNow(0, 2_000), fromNow(2_000, 0)]).toEqual(['now', 'in 2s', '2s ago']);
});

it.each([
  [[{ max: 10, perMs: 60_000 }], 3_000, '10/1m, gap 3s'],
  [[{ max: 10, perMs: 60_000 }], 0, '10/1m, no gap'],
  [[], 3_000, 'gap 3s'],
  [[], 0, 'no limits'],
])('writes limits as they are given', (rules, minGapMs, text) => expect(policyText({ rules, minGapMs })).toBe(text));
