import type { CategoryPolicy } from '../../domain/limits.ts';
import type { Window } from '../../domain/quiet-windows.ts';
import type { Moved, ReservedView } from '../limiter.ts';
import { limitsOf } from '../pace.ts';
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
import type { LookedAt } from './look.ts';
import type { Scopes } from './scopes.ts';

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
    ({ waiting: { slot, isHeld: wasHeld }, at: newSlot, isHeld }) => newSlot !== slot || isHeld !== wasHeld,
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
    isHeld: false,
  }));
  const held = categories.flatMap((category, index) =>
    [...category.held].map(([entry, slot]): Waiting => ({ entry, slot, category: nameOf(index), isHeld: true })),
  );
  const known = new Set(inLine.map(({ entry }) => entry));
  const all = [...inLine, ...held.filter(({ entry }) => !known.has(entry))];
  return all.sort((a, b) => a.slot - b.slot || Number(a.isHeld) - Number(b.isHeld) || (a.entry < b.entry ? -1 : 1));
}

/** ARGV[1] of move.lua. */
export function toMoves(places: readonly Replanned[], { categories }: Policies): string {
  const names = categories.map(([name]) => name);
  const items = places.map(({ waiting: { entry, slot, category, isHeld: wasHeld }, at, isHeld }) => {
    const scope = category === undefined ? 0 : names.indexOf(category) + 2;
    return [entry, scope, Number(wasHeld), slot, Number(isHeld), at];
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
