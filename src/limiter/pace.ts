import { InputError } from '../domain/faults.ts';
import { policyFaults, ruleName, type Policy } from '../domain/limits.ts';

/** At most `max` slots in any `perMs`; the gap is the limit of max 1. */
export interface Limit {
  readonly name: string;
  readonly max: number;
  readonly perMs: number;
}

/** A policy as the limiters work with it: checked, the gap among the limits, the tolerance worked out. */
export interface Pace {
  readonly limits: readonly Limit[];
  /**
   * How far from its slot an id may come back and still go: just less than half the gap, or than half the shortest
   * window where there is no gap, and at most 150 ms. Half of it would let two neighbours swap places; less than the
   * usual lateness of a wake-up would send jobs back for nothing.
   */
  readonly holdMs: number;
  /** The longest window, the gap among them: what was sent before it decides nothing any more. */
  readonly longestMs: number;
}

const HOLD_MAX_MS = 150;
/** An overdue reservation is waited for as long as this; after it, newcomers no longer stand behind it. */
export const GRACE_MS = 1_000;
/** A reservation overdue by more than this is a no-show: its job was removed, or died. */
export const NO_SHOW_MS = 60_000;
/** A slot sent further ahead than the longest window and this comes from a clock that has stepped back since. */
export const CLOCK_STEP_MS = 60_000;
/** After so many that came late one after the other, those who come late go: else all would send each other to the tail for ever. */
export const MOST_MISSED = 3;
/** So many reservations ahead are looked at for a place, or moved to keep the order, in one ask. */
export const MOST_LOOKED_AT = 100;

const paces = new WeakMap<Policy, Pace>();

/** Throws InputError with every fault of the policy, before anything is written under it. */
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
