import { ruleName, type Policy } from '../../domain/limits.ts';
import type { Clock } from './clock.ts';
import type { Admission, Ask } from '../limiter.ts';
import { paceOf } from '../pace.ts';

/** How asks and answers are written between the Redis limiter and its scripts; admit.lua tells what each part means. */

/** The hold, the gap or 0, then max and window of each rule: as a policy is stored for a recipient. */
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

/** ARGV[5] of admit.lua. */
export function toOptions({ maxWaitMs = Infinity, maxPending }: Ask, countBlocked: boolean): string {
  if (maxWaitMs === Infinity && maxPending === undefined && !countBlocked) return '';
  return JSON.stringify({
    ...(maxWaitMs !== Infinity && { maxWait: Math.max(0, Math.floor(maxWaitMs)) }),
    ...(maxPending !== undefined && { maxPending }),
    ...(countBlocked && { countBlocked: 1 }),
  });
}

/** The policies of an ask's scopes. */
export interface ScopePolicies {
  /** As the scripts take them. */
  readonly text: string;
  /** The gap of the first scope. */
  readonly firstGapMs: number;
  /** The widest of the gaps. */
  readonly gapMs: number;
  /** The least of the holds. */
  readonly holdMs: number;
}

/** What admit.lua answers: the time alone, or all of it. */
export type AdmitReply =
  | number
  | readonly [
      kind: 1 | 2 | 3 | 4 | 5,
      at: number,
      now: number,
      holdMs: number,
      gapMs: number,
      scope: number,
      limit: number,
      max: number,
      windowMs: number,
      remaining: number,
      resetMs: number,
    ];

/** A client with `stringNumbers` hands numbers over as text. */
export function numeric(reply: AdmitReply): AdmitReply {
  if (typeof reply === 'string') return Number(reply);
  const isText = typeof reply !== 'number' && typeof reply[0] === 'string';
  return isText ? (reply.map(Number) as unknown as AdmitReply) : reply;
}

/** The limiter's time, which every answer tells. */
export function nowOf(reply: AdmitReply): number {
  return typeof reply === 'number' ? reply : reply[2];
}

export function toAdmission(
  reply: AdmitReply,
  { firstGapMs, gapMs: widestMs, holdMs }: ScopePolicies,
  category: string | undefined,
  clock: Clock,
): Admission {
  if (typeof reply === 'number') {
    const sendAt = clock.toLocal(reply);
    const gap = { rule: 'gap', remaining: 0, resetMs: firstGapMs };
    return { kind: 'admitted', at: reply, sendAt, repeated: false, ...gap, toleranceMs: holdMs, gapMs: widestMs };
  }
  const [kind, at, now, toleranceMs, gapMs, scope, limit, max, windowMs, left, resetMs] = reply;
  const name = nameOf(limit, max, windowMs);
  const rule = scope === 2 && category !== undefined ? `${category}:${name}` : name;
  const standing = { rule, remaining: left === -1 ? Infinity : left, resetMs, toleranceMs, gapMs };
  switch (kind) {
    case 1:
    case 2:
      return { kind: 'admitted', at, sendAt: clock.toLocal(at), repeated: kind === 2, ...standing };
    case 3:
      return { kind: 'reserved', at, waitMs: at - now, ...standing };
    case 4:
    case 5:
      return { kind: 'refused', because: kind === 4 ? 'max-wait' : 'max-pending', waitMs: at - now, ...standing };
  }
}

const RULE_NAMES = new Map<number, string>();
const MAX_RULE_NAMES = 10_000;

/** The names of rules are made once: writing a duration takes as long as all the rest of an answer. */
function nameOf(limit: number, max: number, perMs: number): string {
  if (limit === 0) return 'gap';
  if (limit < 0) return limit === -1 ? 'block' : 'none';
  const key = max * 2 ** 32 + perMs; // windows are shorter than 2^32 ms
  const known = RULE_NAMES.get(key);
  if (known !== undefined) return known;
  const name = ruleName({ max, perMs });
  if (RULE_NAMES.size < MAX_RULE_NAMES) RULE_NAMES.set(key, name);
  return name;
}
