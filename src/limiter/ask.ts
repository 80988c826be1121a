import { InputError, type Fault } from '../domain/faults.ts';
import { heldFaults } from './checks.ts';
import type { Ask } from './limiter.ts';

/** Throws InputError if a recipient or an id is missing, or a bound is not usable. Every text is a valid id. */
export function checkAsk({ maxWaitMs, maxPending, ...held }: Ask): void {
  const faults: Fault[] = heldFaults(held);
  if (maxWaitMs !== undefined && (typeof maxWaitMs !== 'number' || Number.isNaN(maxWaitMs))) {
    faults.push({ path: 'maxWaitMs', expected: 'a number of milliseconds', found: String(maxWaitMs) });
  }
  if (maxPending !== undefined && !(Number.isSafeInteger(maxPending) && maxPending >= 0)) {
    faults.push({ path: 'maxPending', expected: 'an integer of 0 or more', found: String(maxPending) });
  }
  if (faults.length > 0) throw new InputError('unusable ask', faults);
}
