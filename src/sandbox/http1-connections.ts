import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

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
