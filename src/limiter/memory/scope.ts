import { newest, NO_SLOTS, type Slot, type Slots } from './slots.ts';
import type { Policy } from '../../domain/limits.ts';
import { CLOCK_STEP_MS, HORIZON_MS, NO_SHOW_MS, paceOf, type Limit } from '../pace.ts';

/** A recipient's limits and slots: overall, or those of one category. A slot is taken in all scopes of an ask or in none. */
export interface Scope {
  /** Absent for the overall one. */
  readonly category?: string;
  /** Their names as answers tell them. */
  readonly limits: readonly Limit[];
  readonly gapMs: number;
  readonly holdMs: number;
  readonly keptMs: number;
  readonly slots: Slots;
}

/** The overall one, which is the one that knows what was sent, and those of the categories that have a policy. */
export type Scopes = readonly [Scope, ...Scope[]];

/** What a call finds beside the slots. */
export interface Moment {
  readonly now: number;
  /** Absent where the recipient is not blocked now. */
  readonly blockedUntil: number | undefined;
}

/** The scope of a category, or the overall one, as it is now under a policy. */
export function openScope(
  category: string | undefined,
  policy: Policy,
  leastKeptMs: number,
  stored: Slots,
  now: number,
): Scope {
  const { limits, holdMs, longestMs } = paceOf(policy);
  const keptMs = Math.max(leastKeptMs, longestMs);
  const slots = live(stored, longestMs, keptMs, now);
  const scope = { limits, gapMs: policy.minGapMs, holdMs, keptMs, slots };
  if (category === undefined) return scope;
  return { ...scope, category, limits: limits.map((limit) => ({ ...limit, name: `${category}:${limit.name}` })) };
}

/** What is reserved in any of them, by slot, each id once. What a category holds back is in no other; it follows the others of its instant. */
export function reservations([overall, ...others]: Scopes): readonly Slot[] {
  const known = new Set(overall.slots.reserved.map(({ id }) => id));
  const held = others.flatMap(({ slots }) => slots.reserved.filter(({ id }) => !known.has(id)));
  if (held.length === 0) return overall.slots.reserved;
  return [...overall.slots.reserved, ...held].sort((a, b) => a.at - b.at);
}

/** The slots without those that are past, and without what a clock that is gone wrote (the reasons are at CLOCK_STEP_MS). */
function live({ sent, reserved }: Slots, longestMs: number, keptMs: number, now: number): Slots {
  if (sent.length + reserved.length === 0) return NO_SLOTS;
  const lastSent = now + longestMs + CLOCK_STEP_MS;
  const lastReserved = (newest(sent) ?? 0) > lastSent ? -Infinity : now + longestMs + HORIZON_MS;
  return {
    sent: sent.filter(({ at }) => at >= now - keptMs && at <= lastSent),
    reserved: reserved.filter(({ at }) => at >= now - NO_SHOW_MS && at <= lastReserved),
  };
}
