import type { Policy } from '../../domain/limits.ts';
import type { Admission, Inspection, ReservedView, SlotView } from '../limiter.ts';
import { paceOf } from '../pace.ts';
import { idOf } from './keys.ts';
import type { Inspected } from './replies.ts';

/** Stored entry → slot. */
type Entries = ReadonlyMap<string, number>;

/** What is stored of one scope of a recipient. */
export interface LookedAtScope {
  readonly sent: Entries;
  readonly reserved: Entries;
  /** Empty for the overall scope. */
  readonly held: Entries;
}

/** Everything that is stored about a recipient, the overall scope first, then the categories in their order. */
export interface LookedAt extends Omit<Inspected, 'sets'> {
  readonly scopes: readonly LookedAtScope[];
}

/** How many entries one script call reads, from all sets together. */
const ENTRIES_A_PART = 1_000;

/**
 * Reads everything about a recipient in parts, so that no part blocks Redis for long. An entry that changes meanwhile may be seen
 * as it was before or after. `part` skips `leaveOut` entries of each set and reads at most the next `most`.
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

/** What is stored, and the answer that a newcomer would get, as an Inspection. */
export function toInspection(
  looked: LookedAt,
  next: Admission,
  reserved: readonly ReservedView[],
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
    sent: sentViews(scopes[0]?.sent ?? [], own.keepIds).filter(({ at }) => at >= since),
    reserved,
    nextAt: 'at' in next ? next.at : now + next.waitMs,
    rule: next.rule,
  };
}

/** Sorted by slot. */
function sentViews(slots: Iterable<readonly [entry: string, at: number]>, areIds: boolean): SlotView[] {
  const told = [...slots].map(([entry, at]) => {
    const id = areIds ? idOf(entry) : undefined;
    return id === undefined ? { at } : { at, id };
  });
  return told.toSorted((a, b) => a.at - b.at);
}
