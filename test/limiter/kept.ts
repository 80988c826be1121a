import { expect } from 'vitest';
import type { Policy } from '../../src/domain/limits.ts';

/** Fails where two instants are closer than the gap, or a rolling window holds more than its rule allows. */
export function expectKept({ rules, minGapMs }: Policy, instants: readonly number[]): void {
  const sorted = instants.toSorted((a, b) => a - b);
  for (const [index, from] of sorted.entries()) {
    const next = sorted[index + 1];
    if (next !== undefined) expect(next - from).toBeGreaterThanOrEqual(minGapMs);
    for (const { max, perMs } of rules) expect(countWithin(sorted, from, perMs)).toBeLessThanOrEqual(max);
  }
}

/** The same for the windows that hold `at`: what a limiter answers for when it admits to `at` under this policy. */
export function expectKeptAround({ rules, minGapMs }: Policy, instants: readonly number[], at: number): void {
  const limits = minGapMs > 0 ? [{ max: 1, perMs: minGapMs }, ...rules] : rules;
  for (const { max, perMs } of limits) {
    const starts = instants.filter((from) => from <= at && from + perMs > at);
    for (const from of starts) expect(countWithin(instants, from, perMs)).toBeLessThanOrEqual(max);
  }
}

function countWithin(instants: readonly number[], from: number, perMs: number): number {
  return instants.filter((at) => at >= from && at < from + perMs).length;
}
