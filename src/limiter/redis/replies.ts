import type { Policy } from '../../domain/limits.ts';
import { toPolicy, type PolicyNumbers, type ScopePolicies } from './scopes.ts';

/** Reads the answers of the scripts: lists become objects with names. */

/** A number, or its text where the client has `stringNumbers`. */
export type Numeric = number | string;

/** admit.lua explains each part; the short answer is the time alone. */
export type AdmitReply = Numeric | readonly Numeric[];

/** The whole answer of admit.lua. Instants are epoch milliseconds on the limiter's clock. */
export interface Answered {
  readonly kind: 'admitted' | 'repeated' | 'reserved' | 'max-wait' | 'max-pending' | 'ended';
  readonly at: number;
  readonly now: number;
  readonly toleranceMs: number;
  readonly gapMs: number;
  /** 1 for the overall scope, 2 for the category. */
  readonly scope: number;
  /** 0 the gap, -1 the block, -2 none, -3 quiet hours, else the number of a rule. */
  readonly limit: number;
  readonly max: number;
  /** Of the block: the time until its end. */
  readonly windowMs: number;
  /** Infinity for no bound. Of a wait: how many are before it in its line. */
  readonly remaining: number;
  readonly resetMs: number;
  /** Every limit; empty unless the ask wants them. */
  readonly rules: readonly LimitRoom[];
  /** Of an ask with `join`, or that ended: the last two parts. */
  readonly more?: readonly [Numeric, Numeric];
}

/** A limit, and what it has left. */
export type LimitRoom = Pick<Answered, 'scope' | 'limit' | 'max' | 'windowMs' | 'remaining' | 'resetMs'>;

const KINDS = ['admitted', 'repeated', 'reserved', 'max-wait', 'max-pending', 'ended'] as const;

/** The short answer contains no gap and no tolerance: they are taken from the ask's policies (`firstGapMs`: the overall one's). */
export function readAdmit(
  reply: AdmitReply,
  { firstGapMs, gapMs, toleranceMs }: Pick<ScopePolicies, 'firstGapMs' | 'gapMs' | 'toleranceMs'>,
): Answered {
  if (!Array.isArray(reply)) {
    const now = Number(reply);
    const gap = { limit: 0, max: 1, windowMs: firstGapMs, remaining: 0, resetMs: firstGapMs };
    return { kind: 'admitted', at: now, now, toleranceMs, gapMs, scope: 1, ...gap, rules: [] };
  }
  const parts = reply as readonly Numeric[];
  const part = (index: number) => Number(parts[index]);
  const [first, second] = parts.slice(11, 13);
  return {
    ...(parts.length === 13 && first !== undefined && second !== undefined && { more: [first, second] as const }),
    kind: KINDS[part(0) - 1] ?? 'reserved',
    at: part(1),
    now: part(2),
    toleranceMs: part(3),
    gapMs: part(4),
    ...roomFrom(parts, 5),
    rules: Array.from({ length: Math.floor((parts.length - 5) / ROOM_PARTS) - 1 }, (_, index) =>
      roomFrom(parts, 5 + ROOM_PARTS * (index + 1)),
    ),
  };
}

const ROOM_PARTS = 6;

function roomFrom(parts: readonly Numeric[], first: number): LimitRoom {
  const part = (index: number) => Number(parts[first + index]);
  return {
    scope: part(0),
    limit: part(1),
    max: part(2),
    windowMs: part(3),
    remaining: part(4) === -1 ? Infinity : part(4),
    resetMs: part(5),
  };
}

export type SettingsReply = readonly [done: Numeric, now: Numeric];

export function readSettings([done, now]: SettingsReply): { readonly done: boolean; readonly now: number } {
  return { done: Number(done) === 1, now: Number(now) };
}

export type InspectReply = readonly [
  now: Numeric,
  policy: string | null,
  policyUntil: Numeric | null,
  blockedUntil: Numeric | null,
  blockReason: string | null,
  sets: readonly (readonly string[])[],
  quiet: string | null,
];

/** A part of what is stored about a recipient. */
export interface Inspected {
  readonly now: number;
  /** The stored policy, if it is in force. */
  readonly policy: Policy | undefined;
  readonly policyUntil: number | undefined;
  readonly blockedUntil: number | undefined;
  readonly blockReason: string | undefined;
  /** The stored quiet hours. */
  readonly quiet: string | undefined;
  /** For each set, its entries and their slots. */
  readonly sets: readonly (readonly (readonly [entry: string, at: number])[])[];
}

export function readInspect([now, policy, policyUntil, blockedUntil, reason, sets, quiet]: InspectReply): Inspected {
  return {
    now: Number(now),
    policy: policy === null ? undefined : toPolicy(JSON.parse(policy) as PolicyNumbers),
    policyUntil: policyUntil === null ? undefined : Number(policyUntil),
    blockedUntil: blockedUntil === null ? undefined : Number(blockedUntil),
    blockReason: reason ?? undefined,
    quiet: quiet ?? undefined,
    sets: sets.map(pairs),
  };
}

function pairs(entriesAndScores: readonly string[]): [string, number][] {
  const found: [string, number][] = [];
  for (let index = 0; index < entriesAndScores.length; index += 2) {
    found.push([String(entriesAndScores[index]), Number(entriesAndScores[index + 1])]);
  }
  return found;
}
