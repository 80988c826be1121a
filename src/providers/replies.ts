import { redact } from '../notification/redact.ts';
import type { AnswerTables, Prepared, Push, Reply, ReplyRow, ReplyTable } from './provider.ts';
import type { Answered, Unknown, Unsent } from './sender/result.ts';

/** Rows that have the same meaning at several providers. */
export const GONE: ReplyRow = { meaning: 'gone', alerted: 'no' };
export const REJECTED: ReplyRow = { meaning: 'rejected', alerted: 'no' };
/**
 * The answer is about this device. But many of them in a row, for many recipients, mean that this worker is configured for
 * another app: the wrong topic, project or key, or development tokens in production.
 */
export const BAD_TOKEN: ReplyRow = { meaning: 'bad-token', alerted: 'no', suspect: 'configuration' };
/** The provider refuses the credentials, so it would refuse every push. */
export const AUTH: ReplyRow = { meaning: 'later', alerted: 'no', trouble: 'auth' };
export const CONFIGURATION: ReplyRow = { meaning: 'later', alerted: 'no', trouble: 'configuration' };
/** Refused without a known reason: one answer about one device does not prove that every push would be refused. */
export const FORBIDDEN: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, suspect: 'configuration' };
/** This device got too many pushes. Without a Retry-After the wait is a minute, which this project has chosen. */
export const TOO_MANY: ReplyRow = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000 };
/** FCM's documentation asks for at least ten seconds. `maybe`: some messages arrived although the answer was 503. */
export const SERVER_ERROR: ReplyRow = { meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, suspect: 'outage' };
/** The server did not process the request. */
export const NOT_PROCESSED: ReplyRow = { meaning: 'later', alerted: 'no', suspect: 'outage' };

/**
 * An answer as a Reply, with its code and its Retry-After.
 *
 * @param word the provider's code; undefined if the answer has none
 * @param row what the answer means; if absent, the tables say it, by the code or by the status
 */
export function tableReply(
  tables: Pick<AnswerTables, 'words' | 'statuses' | 'unknown'>,
  { status, headers }: Answered,
  word: string | undefined,
  { row, notification, nowMs }: { row?: ReplyRow | undefined; notification: unknown; nowMs: number },
): Reply {
  const found = row ?? findRow(tables.words, word) ?? findRow(tables.statuses, status) ?? anyStatus(status);
  const meant = found ?? tables.unknown;
  const retryAfterMs = meant.meaning === 'later' ? parseRetryAfter(headers['retry-after'], nowMs) : undefined;
  return {
    ...meant,
    // A known code is not redacted, because an alert may by chance contain the same word.
    code: word === undefined ? `http-${status}` : findRow(tables.words, word) ? word : redact(word, notification),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

/** Uses `hasOwn`, so that a code such as `constructor` finds no row. */
export function findRow(table: ReplyTable, key: string | number | undefined): ReplyRow | undefined {
  return key !== undefined && Object.hasOwn(table, key) ? table[key] : undefined;
}

/** Statuses which say that the request was not processed this time (RFC 9110, 15.5.9 and 15.5.20; RFC 8470, 5.2). */
const NOT_PROCESSED_STATUSES: readonly number[] = [408, 421, 425];

/** What a status means at any server. Every other status from 400 to 499 says that the request itself is wrong. */
function anyStatus(status: number): ReplyRow | undefined {
  if (NOT_PROCESSED_STATUSES.includes(status)) return NOT_PROCESSED;
  return status >= 400 && status < 500 ? REJECTED : undefined;
}

/** A longer Retry-After counts as an error of the server, and is cut to this. */
const MAX_RETRY_AFTER_MS = 86_400_000;

/**
 * The wait that a `Retry-After` header asks for (RFC 9110, section 10.2.3: seconds or a date), in milliseconds: a day at most.
 * Undefined if the instant lies in the past.
 */
export function parseRetryAfter(header: unknown, nowMs: number): number | undefined {
  if (typeof header !== 'string') return undefined;
  const waitMs = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - nowMs;
  return waitMs > 0 ? Math.min(waitMs, MAX_RETRY_AFTER_MS) : undefined;
}

const UNSENT: ReplyRow = { meaning: 'later', alerted: 'no', unsent: true };
const NO_CONNECTION: ReplyRow = { ...UNSENT, suspect: 'outage' };
const UNKNOWN: ReplyRow = { meaning: 'later', alerted: 'maybe', ambiguous: true };
const NO_ANSWER: ReplyRow = { ...UNKNOWN, suspect: 'outage' };

/** What a missing answer means. sender/result.ts explains most of these codes. */
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
  /** The status means success, but the provider never sends such a body: the answer may be from a proxy. */
  unreadable: NO_ANSWER,
  /** A bug of this project. */
  'unexpected-error': UNKNOWN,
} as const satisfies ReplyTable;

export function transportReply(code: keyof typeof TRANSPORT_REPLIES, detail?: string): Reply {
  return { ...TRANSPORT_REPLIES[code], code, ...(detail !== undefined && { detail }) };
}

/** A send without an answer, as a Reply. */
export function lostReply({ code, detail }: Unsent | Unknown, push: Push | undefined): Reply {
  return transportReply(code, detail === undefined ? undefined : redact(detail, push?.notification));
}

/** The reply if this process could not sign a token. Signing needs no network, so this is a bug of this project. */
export function signFailure(): Reply {
  return { meaning: 'later', alerted: 'no', unsent: true, trouble: 'auth', code: 'sign-in-failed' };
}

/** The refusal of a payload over the provider's limit, before any request is sent; undefined if the payload fits. */
export function refusedAsTooLarge(code: string, bytes: number, maxBytes: number): Prepared | undefined {
  if (bytes <= maxBytes) return undefined;
  const detail = `payload: expected at most ${maxBytes} bytes, found ${bytes}`;
  return { kind: 'refused', reply: { ...REJECTED, code, detail } };
}
