import type { IncomingHttpHeaders } from 'node:http2';

/** The server answered. */
export interface Answered {
  readonly kind: 'answered';
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Cut off after 64 KiB. */
  readonly body: string;
}

/** Why a request was certainly not processed. */
export type UnsentCode =
  | 'connection-refused'
  /** There is no such host, by the name servers. That they cannot be asked is `connection-failed`. */
  | 'host-not-found'
  | 'tls-failed'
  /** The handshake took too long. */
  | 'connect-timeout'
  /** Any other failure to connect. */
  | 'connection-failed'
  /** The server speaks only HTTP/1.1. */
  | 'no-http2'
  /** The server did not process it: REFUSED_STREAM, or a stream above the last one in its GOAWAY (RFC 9113, 6.8 and 8.7). */
  | 'refused-stream'
  /** No stream was free before `sendBy`. */
  | 'no-stream'
  /** `sendBy` passed before it was handed to the connection. */
  | 'too-late'
  /** `abort` was called before it was handed to the connection. */
  | 'cancelled'
  /** The sender was already closed. */
  | 'closed';

export interface Unsent {
  readonly kind: 'unsent';
  readonly code: UnsentCode;
  /** The error's message. Not redacted: it may contain private data. */
  readonly detail?: string;
}

/** Nobody knows whether it was processed. */
export interface Unknown {
  readonly kind: 'unknown';
  /** `timeout`: no answer in time. `reset`: the connection or the stream was lost. `aborted`: `abort` was called. */
  readonly code: 'timeout' | 'reset' | 'aborted';
  readonly detail?: string;
}

export type SendResult = Answered | Unsent | Unknown;

export function unsent(code: UnsentCode, error?: unknown): Unsent {
  const detail = error instanceof Error ? error.message : undefined;
  return { kind: 'unsent', code, ...(detail !== undefined && { detail }) };
}

/** The error code of a connection on which the server did not choose HTTP/2. */
export const NO_HTTP2 = 'ERR_PUSHPACER_NO_HTTP2';
/** Error codes of Node's sockets for connections that could not be made. */
const CODE_OF_ERROR: Readonly<Record<string, UnsentCode>> = {
  ECONNREFUSED: 'connection-refused',
  ENOTFOUND: 'host-not-found',
  EPROTO: 'tls-failed',
  ETIMEDOUT: 'connect-timeout',
  [NO_HTTP2]: 'no-http2',
};
/** OpenSSL's error codes for a certificate that is not trusted, and Node's for a failed TLS handshake. */
const TLS_ERROR =
  /^(ERR_(TLS|SSL|OSSL)_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERROR_IN_|HOSTNAME_|INVALID_(CA|PURPOSE)|PATH_LENGTH_)/;

/** Why a connection could not be made. */
export function connectFailure(error: unknown): Unsent {
  const codes = codesOf(error);
  if (codes.some((code) => TLS_ERROR.test(code))) return unsent('tls-failed', error);
  const known = codes.find((code) => Object.hasOwn(CODE_OF_ERROR, code));
  return unsent((known === undefined ? undefined : CODE_OF_ERROR[known]) ?? 'connection-failed', error);
}

/** The codes of an error and of the errors inside it (Node tries each address of a host and reports all failures). */
function codesOf(error: unknown): string[] {
  if (typeof error !== 'object' || error === null) return [];
  const { code, errors } = error as { readonly code?: unknown; readonly errors?: unknown };
  const inner: unknown[] = Array.isArray(errors) ? errors : [];
  return [...(typeof code === 'string' ? [code] : []), ...inner.flatMap(codesOf)];
}
