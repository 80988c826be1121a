import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { ACCEPT, type Refuse } from './answers.ts';
import { parseJsonObject, readBody } from './body.ts';
import type { Peer } from './connections.ts';
import { fcmErrorBody } from './fcm-errors.ts';
import { messageFault, readFcmRequest, ttlSeconds, type FcmRequest } from './fcm-message.ts';
import { arrivalInstant } from './journal.ts';
import { LoopbackServer, type Exchange, type LoopbackOptions, type Received } from './loopback-server.ts';

export interface FcmServerOptions extends LoopbackOptions {
  readonly projectId: string;
}

/**
 * The bearer token that stands in for Google's sign-in, the one that Google's own emulators take. A client that is
 * pointed at a loopback server sends exactly `Authorization: Bearer owner`.
 */
export const SANDBOX_FCM_TOKEN = 'owner';

const MAX_BODY_BYTES = 65_536;
/** Like Google's front end: a connection that is idle for four minutes is closed. */
const KEEP_ALIVE_MS = 240_000;

/** FCM for the loopback: HTTP/1.1, `POST /v1/projects/<id>/messages:send`. */
export class FcmServer extends LoopbackServer {
  override readonly platform = 'fcm';
  protected override readonly overQuota: Refuse = { kind: 'refuse', status: 429, reason: 'QUOTA_EXCEEDED' };
  readonly #projectId: string;
  #isSignedOut = false;
  #messages = 0;

  constructor(options: FcmServerOptions) {
    const server = createServer({
      ...options.certificate,
      minVersion: 'TLSv1.2',
      keepAliveTimeout: KEEP_ALIVE_MS,
    });
    super(server, options);
    this.#projectId = options.projectId;
    server.on('request', (request, response) => {
      const at = arrivalInstant();
      this.countRequest();
      if (this.cut(request.socket)) return;
      response.on('error', () => undefined); // the client went away; what was decided stands
      void this.#handle(request, response, at);
    });
  }

  /** Every bearer token is refused, as when a service account was disabled. */
  revokeKey(): void {
    this.#isSignedOut = true;
  }

  restoreKey(): void {
    this.#isSignedOut = false;
  }

  async #handle(request: IncomingMessage, response: ServerResponse, at: number): Promise<void> {
    const body = await readBody(request, MAX_BODY_BYTES);
    if (!body) return;
    const messageName = `projects/${this.#projectId}/messages/${++this.#messages}`;
    const exchange = exchangeOf(response, messageName, request.socket, (peer) => this.connections.reset(peer));
    const fault = this.#routeFault(request) ?? this.#authFault(request);
    const json = parseJsonObject(body);
    const read = readFcmRequest(json);
    const known = read.ok ? readMessage(read.request, at) : UNREADABLE;
    const received: Received = { at, messageName, ...known, payload: json?.['message'] };
    const refusal = fault ?? (read.ok ? messageFault(read.request) : read.refusal);
    const isDryRun = read.ok && read.request.validateOnly === true;
    if (refusal) this.refuse(received, exchange, refusal);
    else if (isDryRun) exchange.accept(ACCEPT);
    else await this.answer(received, exchange);
  }

  #routeFault({ method, url = '' }: IncomingMessage): Refuse | undefined {
    const projectId = /^\/v1\/projects\/([^/]+)\/messages:send$/.exec(url)?.[1];
    if (method !== 'POST' || projectId === undefined) return { kind: 'refuse', status: 404 };
    if (projectId === this.#projectId) return undefined;
    return { kind: 'refuse', status: 403, message: 'Permission denied on the project (or it may not exist).' };
  }

  #authFault({ headers }: IncomingMessage): Refuse | undefined {
    const isSignedIn = headers.authorization === `Bearer ${SANDBOX_FCM_TOKEN}` && !this.#isSignedOut;
    return isSignedIn ? undefined : { kind: 'refuse', status: 401 };
  }
}

function exchangeOf(
  response: ServerResponse,
  messageName: string,
  { remoteAddress, remotePort }: Peer,
  cut: (peer: Peer) => void,
): Exchange {
  const peer = { remoteAddress, remotePort };
  const respond = (status: number, headers: Record<string, string>, text: string) => {
    if (response.destroyed) return;
    const length = String(Buffer.byteLength(text));
    response.writeHead(status, {
      'content-type': 'application/json; charset=UTF-8',
      'content-length': length,
      ...headers,
    });
    response.end(text);
  };
  return {
    peer,
    accept: ({ body = JSON.stringify({ name: messageName }, null, 2) }) => respond(200, {}, body),
    refuse: (answer) => {
      const retry: Record<string, string> = answer.retryAfter === undefined ? {} : { 'retry-after': answer.retryAfter };
      respond(answer.status, retry, answer.body ?? (answer.emptyBody === true ? '' : fcmErrorBody(answer)));
    },
    reset: () => {
      cut(peer);
    },
  };
}

const UNREADABLE = { token: '', data: {} } as const;

/** What the journal tells of a message. */
function readMessage({ message }: FcmRequest, at: number): Omit<Received, 'at' | 'payload'> {
  const { android = {}, notification = {} } = message;
  const ttl = ttlSeconds(android.ttl);
  return {
    token: message.token ?? '',
    collapseId: android.collapseKey,
    priority: android.priority?.toLowerCase(),
    expiration: typeof ttl === 'number' ? at / 1_000 + ttl : undefined,
    title: android.notification?.title ?? notification.title,
    body: android.notification?.body ?? notification.body,
    data: { ...message.data, ...android.data },
  };
}
