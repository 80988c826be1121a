import { newest, NO_SLOTS, type KeptSlots, type Slot, type Slots } from './slots.ts';
import type { Policy } from '../../domain/limits.ts';
import type { Window } from '../../domain/quiet-windows.ts';
import { CLOCK_STEP_MS, limitsOf, NO_SHOW_MS, paceOf, type Limit } from '../pace.ts';

/** A recipient's limits and slots, overall or of one category. A slot is taken in all scopes of an ask or in none. */
export interface Scope {
  /** Absent for the overall scope. */
  readonly category?: string;
  /** With names as in answers: `messages:10/1m`. */
  readonly limits: readonly Limit[];
  readonly gapMs: number;
  readonly toleranceMs: number;
  readonly keptMs: number;
  readonly slots: Slots;
  /** Of the overall scope: the ask is urgent, so it stands behind nobody in line. */
  readonly isUrgent?: boolean;
  /** Where limits are skipped for the ask: all of them, by which the slots are kept. */
  readonly allLimits?: readonly Limit[];
}

/** The overall scope, which decides whether an id was admitted before, then those of the categories that have a policy. */
export type Scopes = readonly [Scope, ...Scope[]];

/** What a call needs to know besides the slots. */
export interface Moment {
  readonly now: number;
  /** Absent where the recipient is not blocked now. */
  readonly blockedUntil: number | undefined;
  /** The quiet times around now. */
  readonly quiet: readonly Window[];
  /** No slot lies so shortly before a quiet time. */
  readonly edgeMs: number;
}

/** The scope of a category, or the overall one, with its limits and slots as they are now. */
export function openScope(
  category: string | undefined,
  policy: Policy,
  leastKeptMs: number,
  stored: KeptSlots | undefined,
  now: number,
): Scope {
  const { toleranceMs, longestMs } = paceOf(policy);
  const slots = stored ?? { ...NO_SLOTS, keptMs: 0 };
  const isKeptLonger = (newest(slots.sent) ?? -Infinity) + slots.keptMs >= now && !isDamage(slots, longestMs, now);
  const keptMs = Math.max(leastKeptMs, longestMs, isKeptLonger ? slots.keptMs : 0);
  return {
    ...(category !== undefined && { category }),
    limits: limitsOf(policy, category),
    gapMs: policy.minGapMs,
    toleranceMs,
    keptMs,
    slots: live(slots, longestMs, keptMs, now),
  };
}

/** The reservations of all scopes, by slot, each id once. At one slot those held back come last. */
export function reservations([overall, ...others]: Scopes): readonly Slot[] {
  const held = others.flatMap(({ slots }) => slots.held);
  if (held.length === 0) return overall.slots.reserved;
  return [...overall.slots.reserved, ...held].sort((a, b) => a.at - b.at);
}

/** Whether they were written before the clock was set back (see CLOCK_STEP_MS). */
function isDamage({ sent }: Slots, longestMs: number, now: number): boolean {
  return (newest(sent) ?? -Infinity) > now + longestMs + CLOCK_STEP_MS;
}

/** The slots without those that are no longer kept, and without damage. */
function live(slots: Slots, longestMs: number, keptMs: number, now: number): Slots {
  const { sent, reserved, held } = slots;
  if (sent.length + reserved.length + held.length === 0) return NO_SLOTS;
  const isAwaited = ({ at }: Slot) => at >= now - NO_SHOW_MS;
  const areGone = isDamage(slots, longestMs, now);
  return {
    sent: sent.filter(({ at }) => at >= now - keptMs && at <= now + longestMs + CLOCK_STEP_MS),
    reserved: areGone ? [] : reserved.filter(isAwaited),
    held: areGone ? [] : held.filter(isAwaited),
  };
}
