import { expect } from 'vitest';
import type { Policy } from '../../src/domain/limits.ts';

/** Fails where two instants are closer than the gap, or a rolling window holds more than its rule allows. */
export function expectKept({ rules, minGapMs }: Policy, instants: readonly number[]): void {
  const sorted = instants.toSorted((a, b) => a - b);
  for (const [index, from] of sorted.entries()) {
    const next = sorted[index + 1];
    if (next !== undefined) expect(next - from).toBeGreaterThanOrEqual(minGapMs);
    for (const { max, perMs } of rules) {
      const inWindow = sorted.filter((at) => at >= from && at < from + perMs);
      expect(inWindow.length, `slots in the ${perMs} ms from ${from}`).toBeLessThanOrEqual(max);
    }
  }
}
