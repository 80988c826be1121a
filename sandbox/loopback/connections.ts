import type { ServerResponse } from 'node:http';
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Server, Socket } from 'node:net';

/** The client's address and port, which TCP, TLS and HTTP/2 all know: they identify a connection on each level. */
export type Peer = Pick<Socket, 'remoteAddress' | 'remotePort'>;

/** The TCP connections of a server, below TLS: counts, resets and closes them at any time. */
export class Connections {
  readonly #sockets = new Map<string, Socket>();
  #opened = 0;
  #handshakeDelayMs = 0;

  constructor(server: Server) {
    // These listeners start TLS on a connection; calling them later delays the handshake.
    const serve = server.listeners('connection');
    server.removeAllListeners('connection');
    const begin = (socket: Socket): void => {
      for (const listener of serve) listener.call(server, socket);
    };
    server.on('connection', (socket: Socket) => {
      this.#opened += 1;
      const peer = keyOf(socket);
      this.#sockets.set(peer, socket);
      socket.once('close', () => {
        if (this.#sockets.get(peer) === socket) this.#sockets.delete(peer);
      });
      if (this.#handshakeDelayMs === 0) begin(socket);
      else this.#beginLater(socket, begin);
    });
  }

  /** How many were ever accepted. */
  get opened(): number {
    return this.#opened;
  }

  /** How many are open. */
  get open(): number {
    return this.#sockets.size;
  }

  /** How long a new connection waits until its handshake is answered; milliseconds. */
  set handshakeDelayMs(waitMs: number) {
    this.#handshakeDelayMs = waitMs;
  }

  /** Resets the connection from that peer; its requests get no answer. */
  reset(peer: Peer): void {
    this.#sockets.get(keyOf(peer))?.resetAndDestroy();
  }

  closeAll(): void {
    for (const socket of this.#sockets.values()) socket.destroy();
  }

  resetAll(): void {
    for (const socket of this.#sockets.values()) socket.resetAndDestroy();
  }

  #beginLater(socket: Socket, begin: (socket: Socket) => void): void {
    const onError = (): void => undefined;
    socket.on('error', onError);
    const timer = setTimeout(() => {
      socket.off('error', onError);
      begin(socket);
    }, this.#handshakeDelayMs);
    socket.once('close', () => {
      clearTimeout(timer);
    });
  }
}

function keyOf({ remoteAddress, remotePort }: Peer): string {
  return `${remoteAddress ?? ''}:${remotePort ?? ''}`;
}

/** The connections of an HTTP/1.1 server between their requests. */
export class Http1Connections {
  readonly #idle = new Set<Socket>();

  /** A request has come on the connection; it is idle again when the response has ended. */
  begin(socket: Socket, response: ServerResponse): void {
    const isKnown = this.#idle.delete(socket);
    if (!isKnown) socket.once('close', () => this.#idle.delete(socket));
    response.once('close', () => {
      if (!socket.destroyed) this.#idle.add(socket);
    });
  }

  closeIdle(): void {
    for (const socket of this.#idle) socket.end();
  }
}

/** When a session counts as idle, and the GOAWAY that it then gets. */
export interface IdleLimit {
  /** Milliseconds without a stream; `Infinity` for no limit. */
  readonly idleMs: number;
  /** GOAWAY's debug data. */
  readonly debugData: string;
}

/** One HTTP/2 connection of a loopback provider: its streams, and how it goes away. */
export class Http2Session {
  readonly peer: Peer;
  protected readonly session: ServerHttp2Session;
  readonly #idleTimer: NodeJS.Timeout | undefined;
  #openStreams = 0;
  #lastStreamId = 0;
  #isLeaving = false;

  constructor(session: ServerHttp2Session, { idleMs, debugData }: IdleLimit) {
    // Read now, because a session that has lost its socket no longer knows the address.
    this.peer = { remoteAddress: session.socket.remoteAddress, remotePort: session.socket.remotePort };
    this.session = session;
    if (idleMs === Infinity) return;
    this.#idleTimer = setTimeout(() => {
      if (this.isIdle) this.goAway(debugData);
    }, idleMs).unref();
    session.once('close', () => {
      clearTimeout(this.#idleTimer);
    });
  }

  /** No stream is open. */
  get isIdle(): boolean {
    return this.#openStreams === 0;
  }

  /** False if the stream came after the GOAWAY: it is refused, and the client may send it on another connection. */
  begin(stream: ServerHttp2Stream): boolean {
    if (this.#isLeaving) {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return false;
    }
    this.#openStreams += 1;
    this.#lastStreamId = stream.id ?? this.#lastStreamId;
    stream.once('close', () => {
      this.#openStreams -= 1;
      if (this.#openStreams > 0) return;
      if (this.#isLeaving) this.session.close();
      else if (!this.session.destroyed) this.#idleTimer?.refresh();
    });
    return true;
  }

  /** GOAWAY without an error, and with debug data: finishes the streams that have begun, then closes. */
  goAway(debugData: string): void {
    if (this.#isLeaving || this.session.destroyed) return;
    this.#isLeaving = true;
    this.session.goaway(constants.NGHTTP2_NO_ERROR, this.#lastStreamId, Buffer.from(debugData));
    if (this.isIdle) this.session.close();
  }
}
