import { redact } from '../domain/redact.ts';
import type { Reply } from './provider.ts';

/** What an answer means, wherever it came from: a Reply without the words of the one answer. */
export type ReplyRow = Pick<Reply, 'meaning' | 'alerted' | 'retryAfterMs' | 'ambiguous' | 'unreached' | 'trouble'>;

/** Rows by the provider's word or the HTTP status. */
export type ReplyTable = Readonly<Record<string, ReplyRow>>;

/** The row of the first key that the table has; tables never inherit a row from Object.prototype. */
export function findRow(table: ReplyTable, keys: readonly (string | number | undefined)[]): ReplyRow | undefined {
  const key = keys.find((candidate) => candidate !== undefined && Object.hasOwn(table, candidate));
  return key === undefined ? undefined : table[key];
}

/** A provider's word: as it is where the table knows it, since an alert may read the same, else without what is private. */
export function wordOf(table: ReplyTable, word: string, notification: unknown): string {
  return Object.hasOwn(table, word) ? word : redact(word, notification);
}
