import type { Window } from '../domain/quiet-windows.ts';
import type { Cause } from './limiter.ts';
import type { Limit } from './pace.ts';
import { quietMsBetween } from './quiet.ts';

/** Why an id waits for so long: the same as `causeOf` in instants.lua, for the limiter in memory, and for whoever looks at a line. */

/** One scope of an id that waits. */
export interface Line {
  readonly limits: readonly Limit[];
  /** The k-th newest sent slot; undefined if there are fewer. */
  readonly nthSent: (k: number) => number | undefined;
  /** How many are before the id here. */
  readonly before: number;
}

/** The causes beside limits. */
export interface Moment {
  readonly now: number;
  /** Absent if the recipient is not blocked now. */
  readonly blockedUntil: number | undefined;
  /** The quiet times around now. */
  readonly quiet: readonly Window[];
}

/**
 * The longest cause of a wait until `at`: the block, quiet time, or the limit that alone would make an id wait longest behind those
 * that are before it. The first limit if nothing makes it wait.
 *
 * @param quietMs how much quiet time counts; by default all of it until `at`
 */
export function causeOf(
  lines: readonly Line[],
  at: number,
  { now, blockedUntil, quiet }: Moment,
  quietMs = quietMsBetween(quiet, now, at),
): Pick<Cause, 'rule' | 'ruleUntil'> {
  let rule: string | undefined;
  let until = now;
  for (const { limits, nthSent, before } of lines) {
    for (const { name, max, perMs } of limits) {
      const slotBefore = Math.max(nthSent(max - (before % max)) ?? -Infinity, now - perMs);
      const alone = slotBefore + perMs * (1 + Math.floor(before / max));
      if (rule === undefined || alone > until) [rule, until] = [name, alone];
    }
  }
  const isBlock = blockedUntil !== undefined && Math.min(blockedUntil, at) >= until;
  if (isBlock) until = Math.min(blockedUntil, at);
  if (quietMs > until - now) return quietCause(quiet, at);
  return isBlock ? { rule: 'block', ruleUntil: blockedUntil } : { rule: rule ?? 'none' };
}

/** The quiet times are the cause: the last one that begins before the slot is told. */
export function quietCause(quiet: readonly Window[], at: number): Pick<Cause, 'rule' | 'ruleUntil'> {
  const ruleUntil = quiet.findLast(({ from }) => from < at)?.until;
  return { rule: 'quiet', ...(ruleUntil !== undefined && { ruleUntil }) };
}
