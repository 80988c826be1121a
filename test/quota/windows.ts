import { expect } from 'vitest';
import type { Rule } from '../../src/domain/limits.ts';

/** The most of these instants in any rolling window, its start included, its end not: `[t, t + perMs)`. */
function mostInWindow(instants: readonly number[], perMs: number): number {
  const sorted = instants.toSorted((a, b) => a - b);
  let most = 0;
  let first = 0;
  for (const [last, at] of sorted.entries()) {
    while ((sorted[first] ?? at) <= at - perMs) first += 1;
    most = Math.max(most, last - first + 1);
  }
  return most;
}

/** Fails where any rolling window has more than its rule allows. */
export function expectWithin(rules: readonly Rule[], instants: readonly number[]): void {
  for (const { max, perMs } of rules) {
    expect(mostInWindow(instants, perMs), `most in any ${perMs} ms`).toBeLessThanOrEqual(max);
  }
}
