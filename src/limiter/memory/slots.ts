/** An instant that is taken. */
export interface Slot {
  readonly at: number;
  /** Absent for a mark: what a blocked ask leaves where blocked asks count. */
  readonly id?: string;
  /** Of a mark, who left it. One id leaves no two at one instant. */
  readonly markOf?: string;
}

/** The slots of one scope, each list oldest first. An id is in one of them at most. */
export interface Slots {
  readonly sent: readonly Slot[];
  /** In line: of the overall scope all that stand in it, of a category those among them that are its own. */
  readonly reserved: readonly Slot[];
  /** Of a category: those that it holds back, which stand in no line yet. */
  readonly held: readonly Slot[];
  /**
   * How many came too late one after the other, of those in line or, in a category, of those that it holds back. Absent where the
   * last one came in time.
   */
  readonly missed?: number | undefined;
}

/** Slots, and how long after it was sent each of them counts: the longest window that anybody asked under. */
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

/** Behind those of the same instant. */
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

/** With a slot that counts as sent and belongs to no id, left by `id` at `at`. */
export function marked(slots: Slots, id: string, at: number): Slots {
  const isThere = slots.sent.some((slot) => slot.at === at && slot.markOf === id);
  return isThere ? slots : { ...slots, sent: including(slots.sent, { at, markOf: id }) };
}

/** Without the marks that no limit looks at any more, since `most` newer slots have come: the limits count no further back. */
export function withoutOldMarks(slots: Slots, most: number): Slots {
  const lastCounted = slots.sent.at(-most)?.at ?? -Infinity;
  return { ...slots, sent: slots.sent.filter((slot) => slot.id !== undefined || slot.at >= lastCounted) };
}

/** The same slots where the id has none in this list. */
export function released(slots: Slots, from: 'sent' | 'reserved' | 'held', id: string): Slots {
  const rest = without(slots[from], id);
  return rest.length < slots[from].length ? { ...slots, [from]: rest } : slots;
}

/** With the id's sent slot moved to `at`; the same slots where it has none before that. */
export function postponed(slots: Slots, id: string, at: number): Slots {
  const before = timeOf(slots.sent, id);
  if (before === undefined || before >= at) return slots;
  return { ...slots, sent: including(without(slots.sent, id), { at, id }) };
}
