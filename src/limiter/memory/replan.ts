import { firstInstant, type Taken } from './plan.ts';
import { reservations, type Moment, type Scope, type Scopes } from './scope.ts';
import type { Slot } from './slots.ts';

/**
 * The scopes after the limits, or the block, have changed: reservations that no longer keep them are moved later, in
 * their order, and none is moved earlier. Each keeps the limits and the order of the scopes that it is reserved in: what a
 * category holds back is no concern of the overall one. `scopes` are all that may hold a reservation.
 */
export function replan(scopes: Scopes, moment: Moment): readonly Scope[] {
  const walks = scopes.map(({ limits, slots }) => ({
    limits,
    ids: new Set(slots.reserved.map(({ id }) => id)),
    slots: [...slots.sent],
    last: -Infinity,
  }));
  const moved = new Map<string | undefined, number>();
  for (const { id, at: slot } of reservations(scopes)) {
    const holding = walks.filter(({ ids }) => ids.has(id));
    const at = Math.max(slot, ...holding.map(({ last }) => last), firstFree(holding, moment));
    for (const walk of holding) {
      insert(walk.slots, { at });
      walk.last = at;
    }
    moved.set(id, at);
  }
  return scopes.map((scope) => {
    const reserved = scope.slots.reserved.map((slot) => ({ ...slot, at: moved.get(slot.id) ?? slot.at }));
    return { ...scope, slots: { ...scope.slots, reserved: reserved.sort((a, b) => a.at - b.at) } };
  });
}

/** As for an ask, but not bound to now: an overdue reservation that keeps its limits stays overdue. */
function firstFree(scopes: readonly Taken[], { blockedUntil }: Moment): number {
  return firstInstant(scopes, { now: -Infinity, blockedUntil }).at;
}

/** The last ones are the likeliest place: slots are walked in their order. */
function insert(slots: Pick<Slot, 'at'>[], slot: Pick<Slot, 'at'>): void {
  slots.splice(slots.findLastIndex(({ at }) => at <= slot.at) + 1, 0, slot);
}

/**
 * An id that its category held back has moved on from `slot`: the others that it holds back behind that keep their
 * distance, in their order. Later only.
 */
export function moveOn([line, category]: Scopes, movedId: string, slot: number): Scopes {
  if (category === undefined) return [line];
  const inLine = new Set([movedId, ...line.slots.reserved.map(({ id }) => id)]);
  const isHeld = ({ id, at }: Slot) => !inLine.has(id) && at >= slot;
  const walk = { limits: category.limits, slots: [...category.slots.sent] as Pick<Slot, 'at'>[] };
  for (const { id, at } of category.slots.reserved) if (inLine.has(id)) insert(walk.slots, { at });
  let last = 0;
  const reserved = category.slots.reserved.map((each) => {
    if (!isHeld(each)) return each;
    const at = Math.max(each.at, last, firstFree([walk], { now: 0, blockedUntil: undefined }));
    last = at;
    insert(walk.slots, { at });
    return { ...each, at };
  });
  return [line, { ...category, slots: { ...category.slots, reserved: reserved.sort((a, b) => a.at - b.at) } }];
}
