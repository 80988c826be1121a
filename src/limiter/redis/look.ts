import type { Policy } from '../../domain/limits.ts';
import type { Admission, Inspection, SlotView } from '../limiter.ts';
import { paceOf } from '../pace.ts';
import { idOf } from './keys.ts';
import type { Inspected } from './replies.ts';

/** Entries and their slots. */
type Entries = ReadonlyMap<string, number>;

/** One scope of a recipient as it is stored. */
export interface LookedAtScope {
  readonly sent: Entries;
  readonly reserved: Entries;
  /** Empty for the overall one. */
  readonly held: Entries;
}

/** All that is stored about a recipient, the overall scope first, then the categories in their order. */
export interface LookedAt extends Omit<Inspected, 'sets'> {
  readonly scopes: readonly LookedAtScope[];
}

/** How many entries are read in one step, from all sets together. */
const ENTRIES_A_PART = 1_000;

/**
 * Reads what is known about a recipient part by part, so that no part takes Redis long. What changes meanwhile may be told as it
 * was before or after. `part` reads so many entries of each set, leaving out the first so many.
 */
export async function lookAt(
  scopes: number,
  part: (leaveOut: number, most: number) => Promise<Inspected>,
): Promise<LookedAt> {
  const sets = Array.from({ length: 3 * scopes - 1 }, () => new Map<string, number>());
  const most = Math.max(1, Math.floor(ENTRIES_A_PART / sets.length));
  for (let leaveOut = 0; ; leaveOut += most) {
    const { sets: found, ...rest } = await part(leaveOut, most);
    for (const [index, entries] of found.entries()) {
      for (const [entry, at] of entries) sets[index]?.set(entry, at);
    }
    if (found.every((entries) => entries.length < most)) return { ...rest, scopes: inScopes(sets) };
  }
}

function inScopes(sets: readonly Entries[]): LookedAtScope[] {
  const set = (index: number): Entries => sets[index] ?? new Map<string, number>();
  const overall = { sent: set(0), reserved: set(1), held: new Map<string, number>() };
  const categories = Array.from({ length: (sets.length - 2) / 3 }, (_, number) => {
    const from = 2 + 3 * number;
    return { sent: set(from), reserved: set(from + 1), held: set(from + 2) };
  });
  return [overall, ...categories];
}

/** What is stored, and a newcomer would be told, as an Inspection. */
export function toInspection(
  looked: LookedAt,
  next: Admission,
  own: { readonly policy: Policy; readonly keepIds: boolean },
): Inspection {
  const { now, policy, policyUntil, blockedUntil, blockReason = '', scopes } = looked;
  const since = now - paceOf(policy ?? own.policy).longestMs;
  return {
    now,
    policy: policy ?? own.policy,
    source: policy === undefined ? 'limiter' : 'stored',
    ...(policyUntil !== undefined && { policyUntil }),
    ...(blockedUntil !== undefined && { block: { until: blockedUntil, reason: blockReason } }),
    sent: views(scopes[0]?.sent ?? [], own.keepIds).filter(({ at }) => at >= since),
    reserved: views([...scopes.flatMap(({ held }) => [...held]), ...(scopes[0]?.reserved ?? [])], true),
    nextAt: 'at' in next ? next.at : now + next.waitMs,
    rule: next.rule,
  };
}

/** By slot, each entry once. */
function views(slots: Iterable<readonly [entry: string, at: number]>, areIds: boolean): SlotView[] {
  const told = [...new Map(slots)].map(([entry, at]) => {
    const id = areIds ? idOf(entry) : undefined;
    return id === undefined ? { at } : { at, id };
  });
  return told.toSorted((a, b) => a.at - b.at);
}
