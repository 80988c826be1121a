import type { Overtaking } from '../domain/limits.ts';

export const DEFAULT_OVERTAKING: Overtaking = { mostTimes: 20, mostMs: 600_000 };
/** None is overtaken: an operator's commands keep the order, since they do not know how far the workers may change it. */
export const IN_ORDER: Overtaking = { mostTimes: 0, mostMs: 0 };

/** What is noted of a reservation that goes first, or that others have overtaken. */
export interface OrderNote {
  /** It goes before those that do not. Then it is not overtaken itself. */
  readonly goesFirst?: boolean;
  /** How often it was overtaken. */
  readonly times?: number;
  /** By how much that has made it later, in milliseconds. */
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
  /** One whose slot comes before this instant is not overtaken: its caller is about to come. */
  readonly movableFrom: number;
  /** By how much a reservation is later at the second instant than at the first, in milliseconds. */
  readonly laterMs: (from: number, at: number) => number;
  /** The earliest slot that one that goes first can have, whoever it goes before. It is asked of each such one in turn. */
  readonly earliestOf: (one: W) => number;
}

/**
 * The reservations in the order in which they are to get slots. `waiting` is in the order of their slots now. Each one that goes
 * first is moved before those in its line that may be overtaken, up to the first that may not: one that goes first too, one that
 * was overtaken often enough or is late enough by that, one that is about to come, or one with a slot that the other could not
 * use yet, because of quiet hours or of the limits of its category. `passedBy`: how many were moved before it by this call;
 * `passes`: it was moved before others.
 */
export function inOrder<W extends InLine>(
  waiting: readonly W[],
  { notes, overtaking: { mostTimes, mostMs }, movableFrom, laterMs, earliestOf }: OrderParts<W>,
): (W & { readonly passedBy: number; readonly passes: boolean })[] {
  const order: (W & { passedBy: number; passes: boolean })[] = [];
  const mayBePassed = ({ id, at, passedBy }: W & { readonly passedBy: number }, place: number): boolean => {
    const { goesFirst = false, times = 0, lateMs = 0 } = notes.get(id) ?? {};
    if (goesFirst || times + passedBy >= mostTimes || at < movableFrom) return false;
    // The slots of the line stay nearly the same, so one that was passed has about the slot of its new place.
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
