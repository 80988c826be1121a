import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Peer } from './connections.ts';

/** When a session counts as idle, and the GOAWAY that it then gets. */
export interface IdleLimit {
  /** Milliseconds without a stream; `Infinity` for no limit. */
  readonly idleMs: number;
  /** GOAWAY's debug data. */
  readonly goodbye: string;
}

/** One HTTP/2 connection of a loopback provider: its streams, and how it goes away. */
export class Http2Session {
  readonly peer: Peer;
  protected readonly session: ServerHttp2Session;
  readonly #idleTimer: NodeJS.Timeout | undefined;
  #openStreams = 0;
  #lastStreamId = 0;
  #isLeaving = false;

  constructor(session: ServerHttp2Session, { idleMs, goodbye }: IdleLimit) {
    // Read now, because a session that has lost its socket no longer knows the address.
    this.peer = { remoteAddress: session.socket.remoteAddress, remotePort: session.socket.remotePort };
    this.session = session;
    if (idleMs === Infinity) return;
    this.#idleTimer = setTimeout(() => {
      if (this.isIdle) this.goAway(goodbye);
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
