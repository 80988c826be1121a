import { describeFound, InputError, optionFaults, type Fault, type OptionNames } from '../domain/faults.ts';
import type { Moved, Overtaking } from './limiter.ts';
import type { Slot } from './recipient-state.ts';

// Who may be overtaken: the same for both limiters. overtake.lua is the same for slots in Redis.

/** What is noted of a reservation: it has overtaken others, and is not overtaken itself; or how often and by how much it was overtaken. */
export type OvertakenNote = 'first' | { readonly times: number; readonly ms: number };

/** A reservation with its new slot, which may be the same one. `id`: absent if only its digest is stored. */
export interface Shift {
  readonly id?: string | undefined;
  readonly from: number;
  readonly at: number;
}

/** What to report: those that have another slot. */
export function shiftsOf(shifts: readonly Shift[]): Pick<Moved, 'id' | 'from' | 'at'>[] {
  const moved = shifts.filter(({ from, at }) => from !== at);
  return moved.map(({ id, from, at }) => ({ ...(id !== undefined && { id }), from, at }));
}

export const DEFAULT_OVERTAKING = { mostTimes: 20, mostMs: 600_000 } as const;

/** How far one reservation may be moved, with the defaults filled in. */
export type Bounds = Required<Pick<Overtaking, 'mostTimes' | 'mostMs' | 'leadMs'>>;

const OPTIONS: OptionNames<Overtaking> = { mostTimes: true, mostMs: true, leadMs: true, onMoved: true };

/** Throws InputError with every option that does not exist or is not usable. */
export function checkedOvertaking(options: Overtaking): Bounds {
  const { mostTimes = DEFAULT_OVERTAKING.mostTimes, mostMs = DEFAULT_OVERTAKING.mostMs, leadMs = 0 } = options;
  const bounds = { mostTimes, mostMs, leadMs };
  const faults: Fault[] = [...optionFaults(options, OPTIONS)];
  for (const [path, value] of Object.entries(bounds)) {
    if (Number.isSafeInteger(value) && value >= 0) continue;
    faults.push({ path, expected: 'an integer of 0 or more', found: describeFound(value, false) });
  }
  if (faults.length > 0) throw new InputError('unusable options', faults);
  return bounds;
}

/**
 * Moves a reservation before those that may be overtaken: each of them gets the slot of the next one, so the same slots are taken as
 * before. Answers what moves, the reservation itself last, and what is to be noted of them.
 *
 * @param line the reservations, the next one first, with the one that is to be moved
 */
export function overtake(
  id: string,
  line: readonly Slot[],
  notes: ReadonlyMap<string, OvertakenNote>,
  { mostTimes, mostMs, leadMs }: Bounds,
  now: number,
): { readonly shifts: readonly Shift[]; readonly noted: ReadonlyMap<string, OvertakenNote> } {
  const place = line.findIndex((slot) => slot.id === id);
  const from = line[place]?.at ?? NaN;
  const shifts: Shift[] = [];
  const noted = new Map<string, OvertakenNote>([[id, 'first']]);
  let at = from;
  for (const { id: other = '', at: slot } of line.slice(0, place).reverse()) {
    const note = notes.get(other) ?? { times: 0, ms: 0 };
    if (note === 'first' || slot < now + leadMs) break;
    const [times, ms] = [note.times + 1, note.ms + at - slot];
    if (times > mostTimes || ms > mostMs) break;
    shifts.push({ id: other, from: slot, at });
    noted.set(other, { times, ms });
    at = slot;
  }
  shifts.push({ id, from, at });
  return { shifts, noted };
}
