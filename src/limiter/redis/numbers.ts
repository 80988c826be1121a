import type { Policy } from '../../domain/limits.ts';
import { paceOf } from '../pace.ts';

/** A policy as it is stored for a recipient: how long slots are kept, the hold (tolerance), the gap or 0, max and window of each rule. */
export type PolicyNumbers = readonly [keepMs: number, holdMs: number, gapMs: number, ...maxAndWindow: number[]];

export function toNumbers(policy: Policy, keepMs: number): PolicyNumbers {
  const { holdMs, longestMs } = paceOf(policy);
  const pairs = policy.rules.flatMap(({ max, perMs }) => [max, perMs]);
  return [Math.max(keepMs, longestMs), holdMs, policy.minGapMs, ...pairs];
}

export function toPolicy([, , minGapMs, ...pairs]: PolicyNumbers): Policy {
  const rules = Array.from({ length: pairs.length / 2 }, (_, index) => {
    const [max = NaN, perMs = NaN] = pairs.slice(2 * index);
    return { max, perMs };
  });
  return { rules, minGapMs };
}
