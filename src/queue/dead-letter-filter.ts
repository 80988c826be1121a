import type { DeadLetterReason } from '../domain/outcome.ts';
import type { StoredDeadLetter } from './dead-letter-list.ts';

/** Selects dead letters; a field that is left out matches all. */
export interface DeadLetterFilter {
  readonly reason?: DeadLetterReason;
  readonly recipientId?: string;
  /** The notification's id, or that of the dead letter's job. */
  readonly id?: string;
  /** The earliest and the latest time of death: epoch milliseconds. */
  readonly sinceMs?: number;
  readonly untilMs?: number;
}

export function matches({ id, letter }: StoredDeadLetter, filter: DeadLetterFilter): boolean {
  const { reason, recipientId, sinceMs = -Infinity, untilMs = Infinity } = filter;
  return (
    (reason === undefined || letter.reason === reason) &&
    (recipientId === undefined || field(letter.notification, 'recipientId') === recipientId) &&
    (filter.id === undefined || id === filter.id || field(letter.notification, 'id') === filter.id) &&
    letter.deadAt >= sinceMs &&
    letter.deadAt <= untilMs
  );
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
