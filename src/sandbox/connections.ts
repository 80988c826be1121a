import type { Server, Socket } from 'node:net';

/** The far end of a connection: the same seen from the TCP socket, from TLS above it, and from HTTP/2 above that. */
export type Peer = Pick<Socket, 'remoteAddress' | 'remotePort'>;

/** Below TLS: the TCP connections of a server, so that they can be counted, reset, and closed whatever is under way. */
export class Connections {
  readonly #sockets = new Map<string, Socket>();
  #opened = 0;

  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      this.#opened += 1;
      const peer = keyOf(socket);
      this.#sockets.set(peer, socket);
      socket.once('close', () => {
        if (this.#sockets.get(peer) === socket) this.#sockets.delete(peer);
      });
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

  /** Resets the connection from that peer: whatever it waits for, it gets no answer. */
  reset(peer: Peer): void {
    this.#sockets.get(keyOf(peer))?.resetAndDestroy();
  }

  closeAll(): void {
    for (const socket of this.#sockets.values()) socket.destroy();
  }

  resetAll(): void {
    for (const socket of this.#sockets.values()) socket.resetAndDestroy();
  }
}

function keyOf({ remoteAddress, remotePort }: Peer): string {
  return `${remoteAddress ?? ''}:${remotePort ?? ''}`;
}
