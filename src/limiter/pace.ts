import { InputError } from '../domain/faults.ts';
import { CATEGORY_FIELDS, policyFaults, ruleName, type Policy } from '../domain/limits.ts';

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
   * The tolerance: how long after its slot an id may be sent without losing it. Most of the gap (of the shortest window if there
   * is no gap): nobody else is awake in that time, so nothing is lost by sending late. With the whole gap or more, all ids that
   * wake at the same instant would be sent, and each would make the line later by a gap.
   */
  readonly toleranceMs: number;
  /** The longest window or gap: slots that were sent before it do not count any more. */
  readonly longestMs: number;
}

/** The share of the gap that an id may be late by. */
const LATE_SHARE = 0.9;
/** An id sleeps in its worker for as long as its line is late, so there is a bound. */
const MAX_TOLERANCE_MS = 2_000;
/** Who comes early sleeps in its worker until its slot. A wake-up is early by its lead (delivery/slot.ts), and some jitter. */
const MAX_EARLY_MS = 120;
/** Newcomers are placed behind an overdue reservation for this long, which is the longest tolerance; then it no longer makes them wait. */
export const GRACE_MS = 2_000;
/** A reservation that is overdue by more than this is a no-show, and forgotten: its job was removed, or its worker died. */
export const NO_SHOW_MS = 60_000;
/** A sent slot that lies ahead of now by more than the longest window plus this is damage: the clock was set back since. */
export const CLOCK_STEP_MS = 60_000;
/** How long before its slot an id may come back, and how far ahead a newcomer is admitted. Less than half the gap: the order stays. */
export function earlyMsOf(toleranceMs: number): number {
  return Math.min(Math.floor(toleranceMs / 2), MAX_EARLY_MS);
}

const paces = new WeakMap<Policy, Pace>();

/** Throws InputError with every fault of the policy, which may be a category's. */
export function paceOf(policy: Policy): Pace {
  const known = paces.get(policy);
  if (known !== undefined) return known;
  const faults = policyFaults(policy, 'policy', CATEGORY_FIELDS);
  if (faults.length > 0) throw new InputError('unusable policy', faults);
  const pace = workOut(policy);
  paces.set(policy, pace);
  return pace;
}

/** The limits of a policy under their names in answers: in a category `messages:10/1m`. */
export function limitsOf(policy: Policy, category: string | undefined): readonly Limit[] {
  const { limits } = paceOf(policy);
  return category === undefined ? limits : limits.map((limit) => ({ ...limit, name: `${category}:${limit.name}` }));
}

function workOut({ rules, minGapMs }: Policy): Pace {
  const gap: Limit[] = minGapMs > 0 ? [{ name: 'gap', max: 1, perMs: minGapMs }] : [];
  const limits = [...gap, ...rules.map((rule) => ({ ...rule, name: ruleName(rule) }))];
  const windows = limits.map(({ perMs }) => perMs);
  const spacingMs = minGapMs > 0 ? minGapMs : Math.min(...windows);
  return {
    limits,
    toleranceMs: Math.floor(Math.min(LATE_SHARE * spacingMs, MAX_TOLERANCE_MS)),
    longestMs: Math.max(0, ...windows),
  };
}
