import { MOST_MISSED } from '../pace.ts';
import type { Scopes } from './scope.ts';

/**
 * Whether an id comes too late to keep its place. Where several others have come late one after the other, it does not: all would
 * send each other to the tail for ever. `scopes` are without the id itself.
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
