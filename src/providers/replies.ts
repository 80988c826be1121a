import { redact } from '../domain/redact.ts';
import type { Push, Reply } from './provider.ts';
import type { Answered, Unknown, Unsent } from './sender/result.ts';

/** What a kind of answer means: a Reply without the texts of one particular answer. */
export type ReplyRow = Pick<
  Reply,
  'meaning' | 'alerted' | 'retryAfterMs' | 'ambiguous' | 'unsent' | 'trouble' | 'suspect' | 'setUp'
>;

/** Rows by the provider's code or the HTTP status. */
export type ReplyTable = Readonly<Record<string, ReplyRow>>;

/** The row of the first key that the table has. `hasOwn`, so that a code `constructor` finds no row. */
export function findRow(table: ReplyTable, keys: readonly (string | number | undefined)[]): ReplyRow | undefined {
  const key = keys.find((candidate) => candidate !== undefined && Object.hasOwn(table, candidate));
  return key === undefined ? undefined : table[key];
}

/** A status of 400 to 499 says that the request itself is at fault, and would be refused again. */
const REJECTED: ReplyRow = { meaning: 'rejected', alerted: 'no' };
/** The exceptions: it was not processed this time (RFC 9110, 15.5.9 and 15.5.20; RFC 8470, 5.2). */
const NOT_PROCESSED: ReplyRow = { meaning: 'later', alerted: 'no', suspect: 'outage' };
const NOT_PROCESSED_STATUSES: readonly number[] = [408, 421, 425];

/** The row of a status: that of the table, or what any server means by it. @param unknown all other statuses: it may have alerted */
export function statusRow(table: ReplyTable, status: number, unknown: ReplyRow): ReplyRow {
  const row = findRow(table, [status]);
  if (row !== undefined) return row;
  if (NOT_PROCESSED_STATUSES.includes(status)) return NOT_PROCESSED;
  return status >= 400 && status < 500 ? REJECTED : unknown;
}

/** A provider's code. A known code is not redacted, because an alert may happen to contain the same word. */
function wordOf(table: ReplyTable, word: string, notification: unknown): string {
  return Object.hasOwn(table, word) ? word : redact(word, notification);
}

const UNSENT: ReplyRow = { meaning: 'later', alerted: 'no', unsent: true };
const NO_CONNECTION: ReplyRow = { ...UNSENT, suspect: 'outage' };
const UNKNOWN: ReplyRow = { meaning: 'later', alerted: 'maybe', ambiguous: true };
const NO_ANSWER: ReplyRow = { ...UNKNOWN, suspect: 'outage' };

/** What it means if there is no answer; sender/result.ts explains most of these codes. */
export const TRANSPORT_REPLIES = {
  'connection-refused': NO_CONNECTION,
  'host-not-found': NO_CONNECTION,
  'tls-failed': NO_CONNECTION,
  'connect-timeout': NO_CONNECTION,
  'connection-failed': NO_CONNECTION,
  'no-http2': NO_CONNECTION,
  'refused-stream': UNSENT,
  'no-stream': UNSENT,
  'too-late': UNSENT,
  cancelled: UNSENT,
  closed: UNSENT,
  timeout: NO_ANSWER,
  reset: NO_ANSWER,
  aborted: UNKNOWN,
  /** A status of success, with a body that the provider does not send. */
  unreadable: NO_ANSWER,
  /** A bug here. */
  'unexpected-error': UNKNOWN,
} as const satisfies ReplyTable;
export type TransportCode = keyof typeof TRANSPORT_REPLIES;

export function transportReply(code: TransportCode, detail?: string): Reply {
  return { ...TRANSPORT_REPLIES[code], code, ...(detail === undefined ? {} : { detail }) };
}

/** A send without an answer, as a Reply. */
export function lostReply({ code, detail }: Unsent | Unknown, push: Pick<Push, 'notification'> | undefined): Reply {
  return transportReply(code, detail === undefined ? undefined : redact(detail, push?.notification));
}

/** The row of an answer as a Reply, with the answer's code and its Retry-After. */
export function rowReply(
  row: ReplyRow,
  { status, headers }: Answered,
  word: string | undefined,
  {
    table,
    notification,
    nowMs,
  }: { readonly table: ReplyTable; readonly notification: unknown; readonly nowMs: number },
): Reply {
  const retryAfterMs = row.meaning === 'later' ? parseRetryAfter(headers['retry-after'], nowMs) : undefined;
  return {
    ...row,
    code: word === undefined ? `http-${status}` : wordOf(table, word, notification),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** A longer Retry-After is taken for an error of the server and cut to this. */
const MAX_RETRY_AFTER_MS = 86_400_000;

/**
 * `Retry-After` (RFC 9110, section 10.2.3), seconds or a date, in milliseconds from `nowMs`: a day at most; undefined if it
 * lies in the past.
 */
export function parseRetryAfter(header: unknown, nowMs: number): number | undefined {
  if (typeof header !== 'string') return undefined;
  const waitMs = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - nowMs;
  return waitMs > 0 ? Math.min(waitMs, MAX_RETRY_AFTER_MS) : undefined;
}

/** The JSON object in a body; an empty object if the body is not JSON. */
export function jsonObject(body: string): Readonly<Record<string, unknown>> {
  try {
    return asRecord(JSON.parse(body));
  } catch {
    return {};
  }
}

export function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
