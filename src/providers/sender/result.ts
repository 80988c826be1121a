import type { IncomingHttpHeaders } from 'node:http2';
import { isIP } from 'node:net';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { InputError } from '../../domain/faults.ts';
import type { Reach } from '../provider.ts';

/** The server answered. */
export interface Answered {
  readonly kind: 'answered';
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The body of the answer, cut off after 64 KiB. */
  readonly body: string;
}

/** Why a request was certainly not processed. */
export type UnsentCode =
  | 'connection-refused'
  /** The name servers say that there is no such host. If no name server answers, the code is `connection-failed`. */
  | 'host-not-found'
  | 'tls-failed'
  /** The connection was not open in time. */
  | 'connect-timeout'
  /** Any other failure to connect. */
  | 'connection-failed'
  /** The server speaks only HTTP/1.1. */
  | 'no-http2'
  /**
   * The server did not process the request: REFUSED_STREAM, or a stream above the last one in its GOAWAY (RFC 9113, 6.8 and
   * 8.7).
   */
  | 'refused-stream'
  /** No stream was free before `sendBy`. */
  | 'no-stream'
  /** `sendBy` passed before the request was handed to the connection. */
  | 'too-late'
  /** `abort` was called before the request was handed to the connection. */
  | 'cancelled'
  /** The sender was already closed. */
  | 'closed';

export interface Unsent {
  readonly kind: 'unsent';
  readonly code: UnsentCode;
  /** The error's message. Not redacted: it may contain private data. */
  readonly detail?: string;
  /** The system's code if no connection could be made: `ENOTFOUND`, `CERT_HAS_EXPIRED`. */
  readonly cause?: string;
}

/** It is not known whether the request was processed. */
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

/** The error code if the server of a connection did not choose HTTP/2. */
export const NO_HTTP2 = 'ERR_PUSHPACER_NO_HTTP2';
/** Error codes of Node's sockets if a connection could not be made. */
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
  const tlsCode = codes.find(isTlsError);
  const known = codes.find((code) => Object.hasOwn(CODE_OF_ERROR, code));
  const code = (known === undefined ? undefined : CODE_OF_ERROR[known]) ?? 'connection-failed';
  const cause = tlsCode ?? known ?? codes[0];
  return { ...unsent(tlsCode === undefined ? code : 'tls-failed', error), ...(cause !== undefined && { cause }) };
}

export function isTlsError(code: string): boolean {
  return TLS_ERROR.test(code);
}

/** The codes of an error and of the errors inside it (Node tries each address of a host, and reports all failures). */
function codesOf(error: unknown): string[] {
  if (typeof error !== 'object' || error === null) return [];
  const { code, errors } = error as { readonly code?: unknown; readonly errors?: unknown };
  const inner: unknown[] = Array.isArray(errors) ? errors : [];
  return [...(typeof code === 'string' ? [code] : []), ...inner.flatMap(codesOf)];
}

/** Remembers the result of the tries to reach one server. */
export function createReach(endpoint: Endpoint) {
  const host = addressOfEndpoint(endpoint);
  let failure: { readonly cause: string; readonly detail?: string } | undefined;
  let since = 0;
  let isTried = false;
  return {
    succeeded(): void {
      isTried = true;
      failure = undefined;
    },
    /** @param beganAt when the try began: an instant of `performance.now()` */
    failed({ code, cause = code, detail }: Pick<Unsent, 'code' | 'cause' | 'detail'>, beganAt: number): void {
      isTried = true;
      if (failure === undefined) since = beganAt;
      failure = { cause, ...(detail !== undefined && detail !== '' && { detail }) };
    },
    /** Whether the server can be reached now. Undefined before the first try has ended. */
    now(): Reach | undefined {
      if (!isTried) return undefined;
      return { host, ...(failure && { failure: { ...failure, forMs: performance.now() - since } }) };
    },
  };
}

/** Where a push service listens. */
export interface Endpoint {
  /** A name or an address, without the brackets of an IPv6 address. */
  readonly host: string;
  readonly port: number;
}

/** `{ host: '::1', port: 443 }` → `[::1]:443` */
function addressOfEndpoint({ host, port }: Endpoint): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** How both senders open a connection to a server. */
export function tlsOptions({ host, port }: Endpoint, secureContext: SecureContext | undefined) {
  return {
    host,
    port,
    ...(isIP(host) === 0 && { servername: host }),
    // Nothing in the environment (NODE_TLS_REJECT_UNAUTHORIZED) may switch this check off.
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
    ...(secureContext && { secureContext }),
  } as const;
}

export function connectTimeout(afterMs: number): Error {
  return Object.assign(new Error(`no connection within ${afterMs} ms`), { code: 'ETIMEDOUT' });
}

/** `https://api.push.apple.com` → host and port (443 if the text has none). Throws an InputError that names `path`. */
export function parseEndpoint(text: string, path: string): Endpoint {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.pathname !== '/' || url.search !== '' || url.username !== '') {
    const expected = 'an address such as https://api.push.apple.com, without a path';
    // The bad address may contain a password, so the error shows only its length.
    throw new InputError('endpoint', [{ path, expected, found: `a string of ${text.length} characters` }]);
  }
  return { host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port: url.port === '' ? 443 : Number(url.port) };
}

/**
 * TLS settings that trust one more CA. The latest ones are kept, because reading 150 certificates for each connection takes
 * longer than the handshake. `undefined` if there is no CA to add.
 */
export function trustBeside(ca: string | undefined): SecureContext | undefined {
  if (ca === undefined) return undefined;
  if (latest?.ca !== ca) latest = { ca, context: createSecureContext({ ca: [...getCACertificates('default'), ca] }) };
  return latest.context;
}

let latest: { readonly ca: string; readonly context: SecureContext } | undefined;
