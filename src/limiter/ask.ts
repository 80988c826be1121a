import { InputError, type Fault } from '../domain/faults.ts';
import type { Ask } from './limiter.ts';

/** Throws InputError where an ask names nobody, nothing, or a wait that is no number. Any text will do for an id. */
export function checkAsk({ recipientId, id, maxWaitMs }: Ask): void {
  const faults: Fault[] = [];
  for (const [path, value] of Object.entries<unknown>({ recipientId, id })) {
    if (typeof value === 'string' && value !== '') continue;
    faults.push({ path, expected: 'a string of one character or more', found: value === '' ? '""' : typeof value });
  }
  if (Number.isNaN(maxWaitMs)) {
    faults.push({ path: 'maxWaitMs', expected: 'a number of milliseconds', found: String(maxWaitMs) });
  }
  if (faults.length > 0) throw new InputError('unusable ask', faults);
}
