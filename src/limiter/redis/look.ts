import type { Policy, CategoryPolicy } from '../../domain/limits.ts';
import type { Window } from '../../domain/quiet-hours.ts';
import type { Admission, Inspection, ReservedView, SlotView, Moved } from '../limiter.ts';
import { paceOf, limitsOf } from '../pace.ts';
import {
  causesOf,
  NO_CAUSE,
  replan,
  type ReplanAt,
  type Replanned,
  type Room,
  type Rooms,
  type Waiting,
} from '../replan.ts';
import { idOf } from './keys.ts';
import type { Inspected, Scopes } from './wire.ts';

/** Stored entry → slot. */
type Entries = ReadonlyMap<string, number>;

/** What is stored of one scope of a recipient. */
interface LookedAtScope {
  readonly sent: Entries;
  readonly reserved: Entries;
  /** Empty for the overall scope. */
  readonly heldBack: Entries;
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
  const overall = { sent: set(0), reserved: set(1), heldBack: new Map<string, number>() };
  const categories = Array.from({ length: (sets.length - 2) / 3 }, (_, number) => {
    const from = 2 + 3 * number;
    return { sent: set(from), reserved: set(from + 1), heldBack: set(from + 2) };
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
  const views = [...slots].map(([entry, at]) => {
    const id = areIds ? idOf(entry) : undefined;
    return id === undefined ? { at } : { at, id };
  });
  return views.toSorted((a, b) => a.at - b.at);
}

/** The policies of a limiter; its categories in the order of their keys. */
type Policies = Pick<Scopes, 'policy' | 'categories'>;

/** The reservations whose slot or scope must change, in their order, with their new slots. */
export function misplaced(
  waiting: readonly Waiting[],
  looked: LookedAt,
  policies: Policies,
  at: Pick<ReplanAt, 'leadMs' | 'quiet'>,
): Replanned[] {
  const { now, blockedUntil } = looked;
  return replan(waiting, roomsOf(looked, policies), { now, blockedUntil, ...at }).filter(
    ({ waiting: { slot, isHeldBack: wasHeldBack }, at: newSlot, isHeldBack }) =>
      newSlot !== slot || isHeldBack !== wasHeldBack,
  );
}

function roomsOf({ policy, scopes }: LookedAt, policies: Policies): Rooms {
  const own = policy ?? policies.policy;
  const named: (readonly [string | undefined, CategoryPolicy])[] = [[undefined, own], ...policies.categories];
  return new Map(
    named.map(([category, each], index): [string | undefined, Room] => [
      category,
      {
        limits: limitsOf(each, category),
        exempt: each.exempt,
        sent: [...(scopes[index]?.sent.values() ?? [])].sort((a, b) => a - b),
      },
    ]),
  );
}

/** All reservations for people to see, in their order. */
export function reservedIn(looked: LookedAt, policies: Policies, quiet: readonly Window[]): ReservedView[] {
  const { now, blockedUntil } = looked;
  const waiting = waitingIn(looked, policies);
  const causes = causesOf(waiting, roomsOf(looked, policies), { now, blockedUntil, quiet });
  return waiting.map(({ entry, slot: at }, index) => {
    const id = idOf(entry);
    return { at, ...(id !== undefined && { id }), ...(causes[index] ?? NO_CAUSE) };
  });
}

/** All reservations, by slot; at one slot those held back come last, and otherwise by the stored id, as Redis orders them. */
export function waitingIn({ scopes: [overall, ...categories] }: LookedAt, policies: Policies): Waiting[] {
  const nameOf = (index: number) => policies.categories[index]?.[0];
  const categoryOf = new Map<string, string | undefined>();
  for (const [index, { reserved }] of categories.entries()) {
    for (const entry of reserved.keys()) categoryOf.set(entry, nameOf(index));
  }
  const inLine = [...(overall?.reserved ?? [])].map(([entry, slot]): Waiting => ({
    entry,
    slot,
    category: categoryOf.get(entry),
    isHeldBack: false,
  }));
  const heldBack = categories.flatMap((category, index) =>
    [...category.heldBack].map(([entry, slot]): Waiting => ({
      entry,
      slot,
      category: nameOf(index),
      isHeldBack: true,
    })),
  );
  const known = new Set(inLine.map(({ entry }) => entry));
  const all = [...inLine, ...heldBack.filter(({ entry }) => !known.has(entry))];
  return all.sort(
    (a, b) => a.slot - b.slot || Number(a.isHeldBack) - Number(b.isHeldBack) || (a.entry < b.entry ? -1 : 1),
  );
}

/** ARGV[1] of move.lua. */
export function toMoves(places: readonly Replanned[], { categories }: Policies): string {
  const names = categories.map(([name]) => name);
  const items = places.map(({ waiting: { entry, slot, category, isHeldBack: wasHeldBack }, at, isHeldBack }) => {
    const scope = category === undefined ? 0 : names.indexOf(category) + 2;
    return [entry, scope, Number(wasHeldBack), slot, Number(isHeldBack), at];
  });
  return JSON.stringify(items);
}

/** What to report: a reservation that changed its scope but not its slot is left out. */
export function movedOf(places: readonly Replanned[]): Moved[] {
  return places
    .filter(({ waiting, at }) => at !== waiting.slot)
    .map(({ waiting: { entry, slot, category }, at, cause }) => {
      const id = idOf(entry);
      return { ...(id !== undefined && { id }), ...(category !== undefined && { category }), from: slot, at, ...cause };
    });
}
