import type { ClientHttp2Session, ClientHttp2Stream, OutgoingHttpHeaders } from 'node:http2';
import type { Notification, Provider } from 'apn';

/** What the client's `send` gives for a device that was not alerted. Its own types lack most of it. */
export interface ApnsFailure {
  /** Of an error that was thrown before there was a request. */
  readonly code?: unknown;
  readonly status?: number;
  readonly error?: Error;
  readonly response?: {
    readonly reason?: string;
    /** Epoch milliseconds (its types say text). */
    readonly timestamp?: number;
  };
}

/** The client's JWT. */
export interface ProviderToken {
  readonly generation: number;
  readonly current: string;
  /** Whether it was issued so many seconds ago or more. */
  isExpired(seconds: number): boolean;
  /** Signs a new one, if `generation` is still the current one. */
  regenerate(generation: number): void;
}

/** The part of a session that the client makes its requests with. */
export interface RequestMaker {
  request(headers: OutgoingHttpHeaders): ClientHttp2Stream;
}

/** The client's connection. Its types do not know it; version 8.1.0 is pinned, and `clientOf` looks before it is used. */
export interface ApnsClient {
  session?: ClientHttp2Session;
  config: { token: ProviderToken };
  connect(): Promise<void>;
  request(session: RequestMaker, ...rest: readonly unknown[]): Promise<unknown>;
  retryRequest(failure: unknown): Promise<unknown>;
  closeAndDestroySession(session?: ClientHttp2Session): Promise<void>;
  shutdown(): Promise<void>;
}

const METHODS = ['connect', 'request', 'retryRequest', 'closeAndDestroySession', 'shutdown'] as const;

/** The connection of the client's Provider; throws where this is not the version that we know. */
export function clientOf(provider: Provider): ApnsClient {
  const { client } = provider as unknown as { client?: Partial<ApnsClient> };
  const missing = METHODS.filter((method) => typeof client?.[method] !== 'function');
  if (typeof client?.config?.token.regenerate !== 'function') missing.push('config.token' as never);
  if (missing.length > 0) {
    throw new Error(`apn: expected the client of version 8.1.0, found one without ${missing.join(', ')}`);
  }
  return client as ApnsClient;
}

/** Encodes a message for good; returns the payload's size in bytes. Its types do not know `compile`. */
export function encode(message: Notification): number {
  return Buffer.byteLength((message as Notification & { compile(): string }).compile());
}
