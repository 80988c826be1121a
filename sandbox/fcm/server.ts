import type { IncomingMessage, ServerResponse } from 'node:http';
import { createSecureServer, type Http2SecureServer, type ServerHttp2Session } from 'node:http2';
import type { Readable } from 'node:stream';
import { arrivalInstant } from '../journal.ts';
import type { Refuse } from '../loopback/answers.ts';
import { makeRsaKey } from '../loopback/certificates.ts';
import { Http1Connections, type Peer, Http2Session } from '../loopback/connections.ts';
import {
  http1Exchange,
  http2Exchange,
  parseJsonObject,
  readBody,
  type Exchange,
  type Wording,
} from '../loopback/exchange.ts';
import {
  LoopbackServer,
  type Http2Request,
  type LoopbackOptions,
  type Received,
  type ServerKey,
  type ServerKind,
} from '../loopback/server.ts';
import { readFcmRequest, readMessage, UNREADABLE, messageFault } from './message.ts';
import { fcmReason, fcmWording } from './reasons.ts';

export interface FcmServerOptions extends LoopbackOptions {
  readonly projectId: string;
  /** Streams an HTTP/2 connection may have at once. */
  readonly maxStreams?: number | undefined;
}

/**
 * The bearer token in place of Google's sign-in; Google's own emulators take the same one. A client of a loopback server
 * sends exactly `Authorization: Bearer owner`.
 */
const SANDBOX_FCM_TOKEN = 'owner';

const PATH = /^\/v1\/projects\/([^/]+)\/messages:send$/;
/** What FCM names a message that it only checked. */
const DRY_RUN_NAME = 'fake_message_id';
const MAX_BODY_BYTES = 65_536;
/** What Google's front end allows. */
const MAX_STREAMS = 100;
/** Like Google's front end: an HTTP/1.1 connection that is idle for four minutes is closed. */
const KEEP_ALIVE_MS = 240_000;

/** The part of a request that is checked before its message. */
export interface FcmHead {
  readonly method: string | undefined;
  readonly path: string | undefined;
  readonly authorization: string | undefined;
}

/** FCM for the loopback: HTTP/2 and HTTP/1.1 on one port, `POST /v1/projects/<id>/messages:send`. */
export class FcmServer extends LoopbackServer {
  override readonly platform = 'fcm';
  /** In the words of Google's front end, as users of its gRPC services report them. */
  protected override readonly idleDebugData = 'session_timed_out';
  protected override readonly debugData = 'server_shutting_down';
  readonly #projectIds: Set<string>;
  readonly #http1 = new Http1Connections();
  readonly #signedOut = new Set<string>();
  #messages = 0;

  constructor(options: FcmServerOptions) {
    const { idleMs } = options.timing;
    const server = createSecureServer({
      ...options.certificate,
      minVersion: 'TLSv1.2',
      allowHTTP1: true,
      http1Options: { keepAliveTimeout: Math.min(idleMs, KEEP_ALIVE_MS) },
      settings: { maxConcurrentStreams: options.maxStreams ?? MAX_STREAMS },
    });
    super(server, options);
    this.#projectIds = new Set([options.projectId]);
    this.#serveHttp1(server);
  }

  /** Messages of another app are accepted too. */
  addProject(projectId: string): void {
    this.#projectIds.add(projectId);
  }

  /** Every bearer token is refused for this project (for all projects without one), as when a service account was disabled. */
  revokeKey(projectId?: string): void {
    for (const id of projectId === undefined ? this.#projectIds : [projectId]) this.#signedOut.add(id);
  }

  restoreKey(projectId?: string): void {
    for (const id of projectId === undefined ? this.#projectIds : [projectId]) this.#signedOut.delete(id);
  }

  override closeIdle(): void {
    super.closeIdle();
    this.#http1.closeIdle();
  }

  protected override reasonOf(answer: Refuse): string | undefined {
    return fcmReason(answer);
  }

  protected override openSession(session: ServerHttp2Session): Http2Session {
    return new Http2Session(session, { idleMs: this.timing.drawIdleMs(), debugData: this.idleDebugData });
  }

  protected override handleHttp2({ peer }: Http2Session, { stream, headers, at }: Http2Request): void {
    const head = { method: headers[':method'], path: headers[':path'], authorization: headers.authorization };
    void this.#handle(head, stream, at, (wording) =>
      http2Exchange(stream, peer, wording, (cut) => this.connections.reset(cut)),
    );
  }

  #serveHttp1(server: Http2SecureServer): void {
    server.on('request', (request, response) => {
      this.#handleHttp1(request as unknown as IncomingMessage, response as unknown as ServerResponse);
    });
    // A listener for requests makes node:http2 wrap each stream in its slower compatibility API. Streams are served by
    // their sessions, so that only requests of HTTP/1.1 are left for the listener.
    server.removeAllListeners('stream');
  }

  #handleHttp1(request: IncomingMessage, response: ServerResponse): void {
    const at = arrivalInstant();
    const { remoteAddress, remotePort } = request.socket;
    const peer: Peer = { remoteAddress, remotePort };
    this.#http1.begin(request.socket, response);
    response.on('error', () => undefined); // the client went away; the journal keeps the answer that was decided
    if (this.countRequest(peer) === undefined) return;
    const head = { method: request.method, path: request.url, authorization: request.headers.authorization };
    void this.#handle(head, request, at, (wording) =>
      http1Exchange(response, peer, wording, (cut) => this.connections.reset(cut)),
    );
  }

  async #handle(
    head: FcmHead,
    stream: Readable,
    at: number,
    exchangeOf: (wording: Wording) => Exchange,
  ): Promise<void> {
    const body = await readBody(stream, MAX_BODY_BYTES);
    if (!body) return;
    const projectId = PATH.exec(head.path ?? '')?.[1];
    const json = parseJsonObject(body);
    const read = readFcmRequest(json);
    const isDryRun = read.ok && read.request.validateOnly === true;
    const messageName = `projects/${projectId}/messages/${isDryRun ? DRY_RUN_NAME : ++this.#messages}`;
    const exchange = exchangeOf(fcmWording(messageName, projectId ?? ''));
    const fault = this.#routeFault(head, projectId) ?? this.#authFault(head, projectId);
    const known = read.ok ? readMessage(read.request, at) : UNREADABLE;
    const received: Received = { at, messageName, projectId, ...known, payload: json?.['message'] };
    const refusal = fault ?? (read.ok ? messageFault(read.request) : read.refusal);
    if (refusal) this.refuse(received, exchange, refusal);
    else if (isDryRun) this.acceptUnseen(exchange);
    else this.answer(received, exchange);
  }

  #routeFault({ method }: FcmHead, projectId: string | undefined): Refuse | undefined {
    if (method !== 'POST' || projectId === undefined) return { kind: 'refuse', status: 404 };
    if (this.#projectIds.has(projectId)) return undefined;
    return { kind: 'refuse', status: 403, message: 'Permission denied on the project (or it may not exist).' };
  }

  #authFault({ authorization }: FcmHead, projectId = ''): Refuse | undefined {
    const isSignedIn = authorization === `Bearer ${SANDBOX_FCM_TOKEN}` && !this.#signedOut.has(projectId);
    return isSignedIn ? undefined : { kind: 'refuse', status: 401 };
  }
}

const PROJECT_ID = 'pushpacer-sandbox';

/** All sandboxes of a process share the key: it takes the longest to make, and no client signs in with it. */
let accountKey: Promise<string> | undefined;

/** A service account in Google's format. */
const key: ServerKey = {
  file: 'service-account.json',
  make: () => (accountKey ??= makeRsaKey()),
  format: {
    write: (privateKey, url) => {
      const account = {
        type: 'service_account',
        project_id: PROJECT_ID,
        private_key_id: '1',
        private_key: privateKey,
        client_email: `worker@${PROJECT_ID}.iam.gserviceaccount.com`,
        client_id: '1',
        // Nothing answers there: a client that signs in fails here, and not at Google.
        token_uri: `${url}/token`,
      };
      return `${JSON.stringify(account, null, 2)}\n`;
    },
    read: (text) => (JSON.parse(text) as { private_key: string }).private_key,
  },
};

export const FCM_SERVER: ServerKind<FcmServer> = {
  host: 'fcm.googleapis.com',
  key,
  create: (options) => new FcmServer({ ...options, projectId: PROJECT_ID }),
  urlVariable: 'FCM_ENDPOINT',
  env: ({ key: account, ca }) => ({
    FCM_CA_FILE: ca,
    FCM_PROJECT_ID: PROJECT_ID,
    GOOGLE_APPLICATION_CREDENTIALS: account,
  }),
};
