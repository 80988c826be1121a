import { MOST_LOOKED_AT, MOST_MISSED } from '../pace.ts';
import { firstInstant } from './plan.ts';
import type { Moment, Scope, Scopes } from './scope.ts';
import type { Slot } from './slots.ts';

/**
 * Whether an id is so late that it loses its place. It keeps it if several others in a row were late too: otherwise each late id
 * would be put behind all others, again and again, and nobody would ever be sent. The scopes are without the id itself.
 */
export function isLate(
  due: number | undefined,
  isHeld: boolean,
  [line, category = line]: Scopes,
  holdMs: number,
  now: number,
): boolean {
  if (due === undefined || now <= due + holdMs) return false;
  const { missed = 0, reserved, held } = (isHeld ? category : line).slots;
  const isAlone = (isHeld ? held : reserved).length === 0;
  return isAlone || missed < MOST_MISSED;
}

/**
 * The line after an id was moved from `due` to `at`: those behind it that would now come before it are moved too, so the order of
 * asking stays. At most MOST_LOOKED_AT are moved.
 */
export function keptInOrder(line: Scope, due: number, at: number, holdMs: number, moment: Moment): readonly Slot[] {
  const { now } = moment;
  const { sent, reserved } = line.slots;
  const before = reserved.filter((slot) => slot.at >= now - holdMs && slot.at < due);
  const taken: Pick<Slot, 'at'>[] = [...sent, ...before, { at }];
  const moved = new Map<Slot, number>();
  let last = at;
  for (const slot of reserved.filter((each) => each.at >= due)) {
    if (slot.at > last || moved.size >= MOST_LOOKED_AT) break;
    const free = firstInstant([{ limits: line.limits, slots: taken }], {
      ...moment,
      now: last,
      blockedUntil: undefined,
    });
    last = free.at;
    taken.push({ at: last });
    moved.set(slot, last);
  }
  return reserved.map((slot) => ({ ...slot, at: moved.get(slot) ?? slot.at })).sort((a, b) => a.at - b.at);
}
