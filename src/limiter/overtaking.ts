import type { Overtaking } from '../domain/limits.ts';

export const DEFAULT_OVERTAKING: Overtaking = { mostTimes: 20, mostMs: 600_000 };
/** No reservation is overtaken. An operator's commands use this, since they do not know the setting of the workers. */
export const IN_ORDER: Overtaking = { mostTimes: 0, mostMs: 0 };

/** What is noted of a reservation that goes first, or that others have overtaken. */
export interface OrderNote {
  /** It goes before reservations that do not, and is never overtaken. */
  readonly goesFirst?: boolean;
  /** How often it was overtaken. */
  readonly times?: number;
  /** By how much being overtaken has made it later, in milliseconds. */
  readonly lateMs?: number;
}

/** The notes of a recipient's reservations, by their stored ids. Most reservations have none. */
export type OrderNotes = ReadonlyMap<string, OrderNote>;

/** What decides the place of a reservation in the line. */
interface InLine {
  readonly id: string;
  /** Its slot now. */
  readonly at: number;
  /** The scope of its category, if that has a policy. */
  readonly own: object | undefined;
  /** It is in the line of its category alone. */
  readonly isHeldBack: boolean;
}

/** What `inOrder` needs besides the reservations. */
interface OrderParts<W> {
  readonly notes: OrderNotes;
  readonly overtaking: Overtaking;
  /** A reservation whose slot comes before this instant is not overtaken: its caller is about to come. */
  readonly movableFrom: number;
  /** How much later the instant `at` is than `from`, in milliseconds. */
  readonly laterMs: (from: number, at: number) => number;
  /** The earliest slot that a reservation that goes first can have. Called once for each of them, in their order. */
  readonly earliestOf: (one: W) => number;
}

/**
 * The reservations in the order in which they are to get slots. `waiting` is in the order of their slots now. A reservation
 * that goes first is moved before the others in its line, up to the first that may not be overtaken: another that goes first,
 * one that was overtaken `mostTimes` times or made later by `mostMs`, or one that is about to come. It also stops at a
 * slot that is too early for it, because of quiet hours or its category's limits. `passedBy`: how many reservations this call
 * moved before it; `passes`: it was moved before others.
 */
export function inOrder<W extends InLine>(
  waiting: readonly W[],
  { notes, overtaking: { mostTimes, mostMs }, movableFrom, laterMs, earliestOf }: OrderParts<W>,
): (W & { readonly passedBy: number; readonly passes: boolean })[] {
  const order: (W & { passedBy: number; passes: boolean })[] = [];
  const mayBePassed = ({ id, at, passedBy }: W & { readonly passedBy: number }, place: number): boolean => {
    const { goesFirst = false, times = 0, lateMs = 0 } = notes.get(id) ?? {};
    if (goesFirst || times + passedBy >= mostTimes || at < movableFrom) return false;
    // The slots of the line stay nearly the same, so an overtaken reservation gets about the slot of its new place.
    return lateMs + laterMs(at, waiting[place]?.at ?? at) < mostMs;
  };
  for (const each of waiting) {
    const passed: number[] = [];
    const earliest = notes.get(each.id)?.goesFirst === true ? earliestOf(each) : Infinity;
    for (let index = order.length - 1; index >= 0 && earliest < Infinity; index -= 1) {
      const other = order[index];
      if (other === undefined || !areInOneLine(each, other)) continue;
      if (other.at < earliest || !mayBePassed(other, index)) break;
      passed.push(index);
    }
    for (const index of passed) {
      const other = order[index];
      if (other !== undefined) other.passedBy += 1;
    }
    order.splice(passed.at(-1) ?? order.length, 0, { ...each, passedBy: 0, passes: passed.length > 0 });
  }
  return order;
}

function areInOneLine(one: InLine, other: InLine): boolean {
  return (one.own !== undefined && one.own === other.own) || (!one.isHeldBack && !other.isHeldBack);
}
