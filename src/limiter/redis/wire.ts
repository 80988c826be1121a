import { ruleName } from '../../domain/limits.ts';
import type { Clock } from './clock.ts';
import type { Admission, Ask } from '../limiter.ts';
import type { Answered } from './replies.ts';

/** How asks are written for the scripts, and what is made of their answers (replies.ts); admit.lua tells what each part means. */

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

export function toAdmission(answered: Answered, category: string | undefined, clock: Clock): Admission {
  const { kind, at, now, holdMs: toleranceMs, gapMs, scope, limit, max, windowMs, remaining, resetMs } = answered;
  const name = nameOf(limit, max, windowMs);
  const rule = scope === 2 && category !== undefined ? `${category}:${name}` : name;
  const standing = { rule, remaining, resetMs, toleranceMs, gapMs };
  switch (kind) {
    case 'admitted':
    case 'repeated':
      return { kind: 'admitted', at, sendAt: clock.toLocal(at), repeated: kind === 'repeated', ...standing };
    case 'reserved':
      return { kind, at, waitMs: at - now, ...standing };
    case 'max-wait':
    case 'max-pending':
      return { kind: 'refused', because: kind, waitMs: at - now, ...standing };
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
