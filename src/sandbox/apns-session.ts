import { constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { ApnsReason } from './apns-reasons.ts';
import type { Peer } from './connections.ts';

export interface ApnsSessionOptions {
  readonly maxStreams: number;
  readonly tokenUpdateMs: number;
}

/** One connection as APNs treats it: its streams, its provider token, and how it goes away. */
export class ApnsSession {
  readonly peer: Peer;
  readonly #session: ServerHttp2Session;
  readonly #options: ApnsSessionOptions;
  #token: { readonly jwt: string; readonly since: number } | undefined;
  #isRaised = false;
  #openStreams = 0;
  #lastStreamId = 0;
  #isLeaving = false;

  constructor(session: ServerHttp2Session, options: ApnsSessionOptions) {
    // Taken now: a session that has lost its socket no longer tells.
    this.peer = { remoteAddress: session.socket.remoteAddress, remotePort: session.socket.remotePort };
    this.#session = session;
    this.#options = options;
  }

  /** False where the stream came after GOAWAY: the client was told that it is not looked at, and may send it elsewhere. */
  begin(stream: ServerHttp2Stream): boolean {
    if (this.#isLeaving) {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return false;
    }
    this.#openStreams += 1;
    this.#lastStreamId = stream.id ?? this.#lastStreamId;
    stream.once('close', () => {
      this.#openStreams -= 1;
      this.#leaveWhenDone();
    });
    return true;
  }

  /** Takes a token that is in order, and opens the connection to more streams; the reason where it changed too soon. */
  useToken(jwt: string, now: number): ApnsReason | undefined {
    if (this.#token && this.#token.jwt !== jwt && now - this.#token.since < this.#options.tokenUpdateMs) {
      return 'TooManyProviderTokenUpdates';
    }
    if (this.#token?.jwt !== jwt) this.#token = { jwt, since: now };
    if (!this.#isRaised && !this.#session.destroyed) {
      this.#isRaised = true;
      this.#session.settings({ maxConcurrentStreams: this.#options.maxStreams });
    }
    return undefined;
  }

  /** The token has expired: the next one is no update that came too soon. */
  forgetToken(): void {
    this.#token = undefined;
  }

  /** GOAWAY without an error, the reason beside it: finishes the streams that have begun, then closes. */
  goAway(reason: ApnsReason): void {
    if (this.#isLeaving || this.#session.destroyed) return;
    this.#isLeaving = true;
    this.#session.goaway(constants.NGHTTP2_NO_ERROR, this.#lastStreamId, Buffer.from(JSON.stringify({ reason })));
    this.#leaveWhenDone();
  }

  #leaveWhenDone(): void {
    if (this.#isLeaving && this.#openStreams === 0) this.#session.close();
  }
}
