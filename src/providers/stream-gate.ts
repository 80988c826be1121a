import type { ClientHttp2Session, Settings } from 'node:http2';

/** One request that waits for its stream. */
interface Waiter {
  readonly enter: () => void;
  readonly refuse: (error: Error) => void;
}

/**
 * Lets requests onto a connection only when their stream can open at once. A stream that is made earlier waits inside of
 * HTTP/2, for the handshake or under the server's limit, and leaves when nobody looks; nothing tells whether it has.
 */
export class StreamGate {
  readonly #waiting = new Set<Waiter>();
  /** None until the connection stands, and one until the server has said how many it takes, as with APNs. */
  #limit = 0;
  #open = 0;
  #end: Error | undefined;

  constructor(session: ClientHttp2Session) {
    session.once('connect', () => {
      this.#raise(Math.max(this.#limit, 1));
    });
    session.on('remoteSettings', ({ maxConcurrentStreams }: Settings) => {
      this.#raise(maxConcurrentStreams ?? Infinity);
    });
    // Not what has gone wrong, but a goodbye: what has no stream yet may go elsewhere.
    session.once('goaway', () => {
      this.#endWith(goodbye('the server takes its leave'));
    });
    session.once('error', (error: Error) => {
      this.#endWith(error);
    });
    session.once('close', () => {
      this.#endWith(new Error('the connection was closed'));
    });
  }

  /**
   * Resolves when a stream may open, which is then counted until `leave`; rejects where the connection ends before.
   *
   * @param onWait given what ends the wait, where there is one
   */
  enter(onWait: (giveUp: () => void) => void): Promise<void> {
    if (this.#end !== undefined) return Promise.reject(this.#end);
    if (this.#open < this.#limit) {
      this.#open += 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { enter: resolve, refuse: reject };
      this.#waiting.add(waiter);
      onWait(() => {
        if (this.#waiting.delete(waiter)) reject(new Error('the caller waits no longer'));
      });
    });
  }

  /** What has no stream yet may go elsewhere, as after a goodbye of the server's. */
  shut(): void {
    this.#endWith(goodbye('nothing leaves on this connection any more'));
  }

  leave(): void {
    this.#open -= 1;
    this.#admit();
  }

  #raise(limit: number): void {
    this.#limit = limit;
    this.#admit();
  }

  #admit(): void {
    for (const waiter of this.#waiting) {
      if (this.#open >= this.#limit) return;
      this.#waiting.delete(waiter);
      this.#open += 1;
      waiter.enter();
    }
  }

  #endWith(error: Error): void {
    this.#end ??= error;
    for (const waiter of this.#waiting) waiter.refuse(error);
    this.#waiting.clear();
  }
}

function goodbye(message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_HTTP2_GOAWAY_SESSION' });
}
