import { MOST_MISSED } from '../pace.ts';
import type { Scopes } from './scope.ts';

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
