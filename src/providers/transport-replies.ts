import type { Reply } from './provider.ts';
import type { ReplyRow, ReplyTable } from './reply-row.ts';

const NOT_PROCESSED: ReplyRow = { meaning: 'later', alerted: 'no' };
const AMBIGUOUS: ReplyRow = { meaning: 'later', alerted: 'maybe', ambiguous: true };

/** What it means when there is no answer at all; the words are ours. */
export const TRANSPORT_REPLIES = {
  'connection-refused': NOT_PROCESSED,
  'host-not-found': NOT_PROCESSED,
  'tls-failed': NOT_PROCESSED,
  /** Anything else that went wrong before the request could leave. */
  'connection-failed': NOT_PROCESSED,
  /** The time was up before the request could leave. */
  'connect-timeout': NOT_PROCESSED,
  /** HTTP/2's promise that nothing was processed (RFC 9113, section 8.7), also for streams above GOAWAY's last id. */
  'refused-stream': NOT_PROCESSED,
  /** The caller gave up before the request could leave. */
  cancelled: NOT_PROCESSED,
  /** The provider was closed before the send. */
  closed: NOT_PROCESSED,
  timeout: AMBIGUOUS,
  /** The connection or the stream was lost while the answer was awaited. */
  reset: AMBIGUOUS,
  /** The caller gave up while the answer was awaited. */
  aborted: AMBIGUOUS,
  /** Something that nobody has seen yet. */
  unknown: AMBIGUOUS,
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
const TLS_ERROR = /^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|INVALID_CA)/;

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

/** The words of the error that started it all. */
export function rootMessage(error: unknown): string | undefined {
  const message = causes(error)[0]?.message;
  return typeof message === 'string' ? message : undefined;
}

/** `Retry-After` (RFC 9110, section 10.2.3), seconds or a date, in milliseconds from `nowMs`; none where it lies behind. */
export function parseRetryAfter(header: unknown, nowMs: number): number | undefined {
  if (typeof header !== 'string') return undefined;
  const waitMs = /^\d{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - nowMs;
  return waitMs > 0 ? waitMs : undefined;
}
