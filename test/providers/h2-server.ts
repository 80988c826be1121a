import {
  constants,
  createSecureServer,
  type Http2SecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type Settings,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
import { onTestFinished } from 'vitest';
import type { Endpoint, SendResult } from '../../src/providers/sender/result.ts';
import type { SendOptions } from '../../src/providers/provider.ts';
import { createSender, type Sender, type SenderOptions } from '../../src/providers/sender/sender.ts';
import { makeAuthority, signCertificate } from '../../sandbox/loopback/certificates.ts';

/** What a server does with a request whose headers have arrived. */
export type Handler = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

/** A small HTTP/2 server over TLS, and what it has seen. */
export interface H2Server {
  readonly server: Http2SecureServer;
  readonly endpoint: Endpoint;
  /** `https://127.0.0.1:<port>` */
  readonly url: string;
  readonly secureContext: SecureContext;
  /** TCP connections, below TLS, that are open. */
  readonly sockets: ReadonlySet<Socket>;
  /** Sessions that are open, the oldest first. */
  readonly sessions: ReadonlySet<ServerHttp2Session>;
  /** When each TCP connection came: `performance.now()`. */
  readonly connectedAt: readonly number[];
  /** The `:path` of each request whose headers arrived. */
  readonly paths: readonly string[];
  /** Requests that are open now, and the most that ever were at once on one session. */
  readonly load: { now: number; peak: number };
  /** GOAWAY; what comes on the session afterwards is refused, as the standard wants it, and does not count. */
  readonly goAway: (session: ServerHttp2Session, code?: number) => void;
}

export interface H2ServerOptions {
  readonly settings?: Settings;
  /** Further connections are closed at once. May be changed. */
  maxConnections?: number;
}

/** Who signs the servers' certificates; clients trust it as `ca`. */
export const authority = await makeAuthority(Date.now());
/** For 127.0.0.1 and localhost; clients trust it by `secureContext`. */
export const certificate = await signCertificate(authority, ['127.0.0.1', 'localhost'], Date.now());
export const secureContext = createSecureContext({ ca: [authority.cert] });
/** The PEM of the authority, for providers that trust it. */
export const ca = authority.cert;

/** Answers 200. */
export function accept(stream: ServerHttp2Stream): void {
  if (stream.destroyed || stream.closed) return;
  stream.respond({ ':status': 200 });
  stream.end('taken');
}

export async function openServer(handle: Handler = accept, options: H2ServerOptions = {}): Promise<H2Server> {
  const server = createSecureServer({ ...certificate, settings: options.settings ?? {} });
  const sockets = new Set<Socket>();
  const sessions = new Set<ServerHttp2Session>();
  const paths: string[] = [];
  const connectedAt: number[] = [];
  const load = { now: 0, peak: 0 };
  const leaving = new WeakSet<ServerHttp2Session>();
  const goAway = (session: ServerHttp2Session, code: number = constants.NGHTTP2_NO_ERROR): void => {
    leaving.add(session);
    if (code === constants.NGHTTP2_NO_ERROR) session.close();
    else session.goaway(code);
  };
  server.prependListener('connection', (socket: Socket) => {
    connectedAt.push(performance.now());
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => sockets.delete(socket));
    if (sockets.size > (options.maxConnections ?? Infinity)) socket.destroy();
  });
  server.on('session', (session) => {
    let open = 0;
    sessions.add(session);
    session.on('error', () => undefined);
    session.once('close', () => sessions.delete(session));
    session.on('stream', (stream, headers) => {
      stream.on('error', () => undefined);
      if (leaving.has(session)) {
        stream.close(constants.NGHTTP2_REFUSED_STREAM);
        return;
      }
      paths.push(headers[':path'] ?? '');
      open += 1;
      load.now += 1;
      load.peak = Math.max(load.peak, open);
      stream.once('close', () => {
        open -= 1;
        load.now -= 1;
      });
      handle(stream, headers);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  const { port } = server.address() as AddressInfo;
  const endpoint = { host: '127.0.0.1', port };
  const url = `https://127.0.0.1:${port}`;
  return { server, endpoint, url, secureContext, sockets, sessions, connectedAt, paths, load, goAway };
}

/** A sender to the server, closed when the test ends. */
export function openSender(
  server: Pick<H2Server, 'endpoint' | 'secureContext'>,
  options: Partial<SenderOptions> = {},
): Sender {
  const sender = createSender({ endpoint: server.endpoint, secureContext: server.secureContext, ...options });
  onTestFinished(() => sender.close());
  return sender;
}

/** Sends one request; each has a path of its own. */
export function post(sender: Sender, path = '/', when: SendOptions = {}, body = '{"aps":{}}'): Promise<SendResult> {
  return sender.send({ headers: { ':method': 'POST', ':path': path }, body }, when);
}

/** So many at once: `/0`, `/1` and so on. */
export function postMany(sender: Sender, count: number, when?: () => SendOptions): Promise<SendResult[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => post(sender, `/${index}`, when?.())));
}

/** `answered 200`, `unsent refused-stream`, `unknown timeout`. */
export function brief(result: SendResult): string {
  return `${result.kind} ${result.kind === 'answered' ? result.status : result.code}`;
}

/** How many of each. */
export function tally(results: readonly SendResult[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const result of results) counts[brief(result)] = (counts[brief(result)] ?? 0) + 1;
  return counts;
}
