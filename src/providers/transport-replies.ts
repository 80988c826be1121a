import type { Reply } from './provider.ts';
import type { ReplyRow, ReplyTable } from './reply-row.ts';

/** The request never left, or HTTP/2 promises that nobody looked at it. */
const UNREACHED: ReplyRow = { meaning: 'later', alerted: 'no', unreached: true };
/** The same, and it is the provider, or the way to it, that is not there. */
const NO_WAY: ReplyRow = { ...UNREACHED, trouble: 'outage' };
const GIVEN_UP: ReplyRow = { meaning: 'later', alerted: 'maybe', ambiguous: true };
const SILENCE: ReplyRow = { ...GIVEN_UP, trouble: 'outage' };

/** What it means when there is no answer at all; the words are ours. */
export const TRANSPORT_REPLIES = {
  'connection-refused': NO_WAY,
  'host-not-found': NO_WAY,
  'tls-failed': NO_WAY,
  /** Anything else that went wrong before the request could leave. */
  'connection-failed': NO_WAY,
  /** The time was up before the request could leave. */
  'connect-timeout': NO_WAY,
  /** No connection was ready before `leaveBy`, and so it did not leave at all. */
  'not-in-time': NO_WAY,
  /** `leaveBy` was over before anything was tried, or while this process stood still: that is not the provider's fault. */
  'too-late': UNREACHED,
  /** HTTP/2's promise that nothing was processed (RFC 9113, section 8.7), also for streams above GOAWAY's last id. */
  'refused-stream': UNREACHED,
  /** The caller gave up before the request could leave. */
  cancelled: UNREACHED,
  /** The provider was closed before the send. */
  closed: UNREACHED,
  timeout: SILENCE,
  /** The connection or the stream was lost while the answer was awaited. */
  reset: SILENCE,
  /** The caller gave up while the answer was awaited. */
  aborted: GIVEN_UP,
  /** An answer that says taken, but not as the provider says it. */
  unreadable: SILENCE,
  /** Something that nobody has seen yet. */
  unknown: SILENCE,
} as const satisfies ReplyTable;
export type TransportCode = keyof typeof TRANSPORT_REPLIES;

/** Error codes of Node for requests that never left. */
const CODE_OF_ERROR: Readonly<Record<string, TransportCode>> = {
  ECONNREFUSED: 'connection-refused',
  ENOTFOUND: 'host-not-found',
  EAI_AGAIN: 'host-not-found',
  EPROTO: 'tls-failed',
  ETIMEDOUT: 'connect-timeout',
  ERR_HTTP2_STREAM_ERROR: 'refused-stream',
  ERR_HTTP2_SESSION_ERROR: 'refused-stream',
  ERR_HTTP2_GOAWAY_SESSION: 'refused-stream',
};
/** OpenSSL's words for a certificate that is not trusted, and Node's for TLS that fails. */
const TLS_ERROR =
  /^(ERR_(TLS|SSL|OSSL)_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERROR_IN_|HOSTNAME_|INVALID_(CA|PURPOSE)|PATH_LENGTH_)/;

export function transportReply(code: TransportCode, detail?: string): Reply {
  return { ...TRANSPORT_REPLIES[code], code, ...(detail === undefined ? {} : { detail }) };
}

/** Our word for an error of the transport; `mayHaveArrived` tells whether any of the request may have got there. */
export function transportCode(error: unknown, mayHaveArrived: boolean): TransportCode {
  const codes = causes(error).flatMap(({ code }) => (typeof code === 'string' ? [code] : []));
  if (mayHaveArrived) return codes.includes('ETIMEDOUT') ? 'timeout' : 'reset';
  if (codes.some((code) => TLS_ERROR.test(code))) return 'tls-failed';
  const known = codes.find((code) => Object.hasOwn(CODE_OF_ERROR, code));
  return known === undefined ? 'connection-failed' : (CODE_OF_ERROR[known] ?? 'connection-failed');
}

interface ErrorLike {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly cause?: unknown;
}

/** An error and what caused it, the deepest first; VError's `cause` is a method. */
export function causes(error: unknown): readonly ErrorLike[] {
  const chain: ErrorLike[] = [];
  let link: unknown = error;
  while (typeof link === 'object' && link !== null && chain.length < 10) {
    const like: ErrorLike = link;
    chain.unshift(like);
    link = typeof like.cause === 'function' ? (like.cause as () => unknown).call(like) : like.cause;
  }
  return chain;
}

/** Longer than this nobody is asked to wait; what says so is broken. */
const MAX_RETRY_AFTER_MS = 86_400_000;

/**
 * `Retry-After` (RFC 9110, section 10.2.3), seconds or a date, in milliseconds from `nowMs`: a day at the most; none where it
 * lies behind.
 */
export function parseRetryAfter(header: unknown, nowMs: number): number | undefined {
  if (typeof header !== 'string') return undefined;
  const waitMs = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - nowMs;
  return waitMs > 0 ? Math.min(waitMs, MAX_RETRY_AFTER_MS) : undefined;
}
