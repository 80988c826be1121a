/** An instant that is taken. */
export interface Slot {
  readonly at: number;
  /** Absent for a mark, which counts a blocked ask as sent (`countBlocked`). */
  readonly id?: string;
  /** For a mark: the id of its ask. One id has at most one mark at one instant. */
  readonly markOf?: string;
}

/** The slots of one scope, each list oldest first. An id is in one list at most. */
export interface Slots {
  readonly sent: readonly Slot[];
  /** In line. The overall scope has all of them, a category its own ones. */
  readonly reserved: readonly Slot[];
  /** Held back by this category: not in the overall line yet. Empty in the overall scope. */
  readonly held: readonly Slot[];
}

/** Slots, and for how long a sent one is kept: the longest window that any ask came with. */
export interface KeptSlots extends Slots {
  readonly keptMs: number;
}

export const NO_SLOTS: Slots = { sent: [], reserved: [], held: [] };

export function timeOf(slots: readonly Slot[], id: string): number | undefined {
  return slots.find((slot) => slot.id === id)?.at;
}

export function newest(slots: readonly Slot[]): number | undefined {
  return slots.at(-1)?.at;
}

/** Inserts the slot behind those of the same instant. */
export function including(slots: readonly Slot[], slot: Slot): readonly Slot[] {
  const place = slots.findLastIndex(({ at }) => at <= slot.at) + 1;
  return slots.toSpliced(place, 0, slot);
}

export function without(slots: readonly Slot[], id: string): readonly Slot[] {
  return slots.filter((slot) => slot.id !== id);
}

export function withoutId(slots: Slots, id: string): Slots {
  const { sent, reserved, held } = slots;
  return { ...slots, sent: without(sent, id), reserved: without(reserved, id), held: without(held, id) };
}

/** With a mark: a slot that counts as sent but does not hold the id. */
export function marked(slots: Slots, id: string, at: number): Slots {
  const isThere = slots.sent.some((slot) => slot.at === at && slot.markOf === id);
  return isThere ? slots : { ...slots, sent: including(slots.sent, { at, markOf: id }) };
}

/** Without marks that no limit looks at any more: no limit counts more than the `most` newest slots. */
export function withoutOldMarks(slots: Slots, most: number): Slots {
  const lastCounted = slots.sent.at(-most)?.at ?? -Infinity;
  return { ...slots, sent: slots.sent.filter((slot) => slot.id !== undefined || slot.at >= lastCounted) };
}

/** Without the id in this list; the same object if it is not there. */
export function released(slots: Slots, from: 'sent' | 'reserved' | 'held', id: string): Slots {
  const rest = without(slots[from], id);
  return rest.length < slots[from].length ? { ...slots, [from]: rest } : slots;
}
