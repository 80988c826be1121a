import { expect, it } from 'vitest';
import { backoffMs } from '../../src/delivery/decide.ts';

const policy = { backoffBaseMs: 1_000, backoffMaxMs: 60_000 };

it('doubles with each try, up to the maximum', () => {
  expect([1, 2, 3, 7, 50].map((tries) => backoffMs(tries, policy, 0, 1))).toEqual([
    1_000, 2_000, 4_000, 60_000, 60_000,
  ]);
});

it('draws the upper half by chance', () => {
  expect(backoffMs(2, policy, 0, 0)).toBe(1_000);
  expect(backoffMs(2, policy, 0, 0.5)).toBe(1_500);
});

it('never undercuts what the provider asked for, and spreads it by a tenth', () => {
  expect(backoffMs(1, policy, 120_000, 0)).toBe(120_000);
  expect(backoffMs(1, policy, 120_000, 1)).toBe(132_000);
});
