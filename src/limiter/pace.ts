import { InputError } from '../domain/faults.ts';
import { policyFaults, ruleName, type Policy } from '../domain/limits.ts';

/** At most `max` slots in any window of `perMs`. The gap is a limit too, with max 1. */
export interface Limit {
  readonly name: string;
  readonly max: number;
  readonly perMs: number;
}

/** A policy as the limiters use it: checked, with the gap as one of the limits, and with its tolerance. */
export interface Pace {
  readonly limits: readonly Limit[];
  /**
   * The tolerance: how long before or after its slot an id may come back and still be sent. Just less than half the gap (or
   * half the shortest window if there is no gap), at most 150 ms. With half or more, two neighbours could swap their order.
   * With less than the usual lateness of a wake-up, jobs that come a little late would be requeued without need.
   */
  readonly holdMs: number;
  /** The longest window or gap: slots that were sent before it do not count any more. */
  readonly longestMs: number;
}

const HOLD_MAX_MS = 150;
/** Newcomers are placed behind an overdue reservation for this long; after that it no longer makes them wait. */
export const GRACE_MS = 1_000;
/** A reservation that is overdue by more than this is a no-show, and forgotten: its job was removed, or its worker died. */
export const NO_SHOW_MS = 60_000;
/** A sent slot that lies ahead of now by more than the longest window plus this is damage: the clock was set back since. */
export const CLOCK_STEP_MS = 60_000;
/**
 * After this many late ids in a row, a late id keeps its place: otherwise, when all are late, each would be put behind all
 * others, again and again, and nobody would ever be sent.
 */
export const MOST_MISSED = 3;
/** The most reservations that one ask looks at to find a place, or moves to keep the order. */
export const MOST_LOOKED_AT = 100;

const paces = new WeakMap<Policy, Pace>();

/** Throws InputError with every fault of the policy. */
export function paceOf(policy: Policy): Pace {
  const known = paces.get(policy);
  if (known !== undefined) return known;
  const faults = policyFaults(policy, 'policy');
  if (faults.length > 0) throw new InputError('unusable policy', faults);
  const pace = workOut(policy);
  paces.set(policy, pace);
  return pace;
}

function workOut({ rules, minGapMs }: Policy): Pace {
  const gap: Limit[] = minGapMs > 0 ? [{ name: 'gap', max: 1, perMs: minGapMs }] : [];
  const limits = [...gap, ...rules.map((rule) => ({ ...rule, name: ruleName(rule) }))];
  const windows = limits.map(({ perMs }) => perMs);
  const spacingMs = minGapMs > 0 ? minGapMs : Math.min(...windows);
  return {
    limits,
    holdMs: Math.min(Math.floor((spacingMs - 1) / 2), HOLD_MAX_MS),
    longestMs: Math.max(0, ...windows),
  };
}
