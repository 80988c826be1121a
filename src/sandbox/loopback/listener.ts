import { isIPv6 } from 'node:net';
import type { Server } from 'node:tls';
import type { Certificate } from '../keys/certificates.ts';
import { Connections } from './connections.ts';

export interface ListenerOptions {
  readonly certificate: Certificate;
  /** How long a new connection waits until its handshake is answered; milliseconds. */
  readonly handshakeMs: number;
}

/** The TCP and TLS part of a loopback provider: where it listens, and faults of its connections. */
export class LoopbackListener {
  protected readonly connections: Connections;
  readonly #server: Server;
  readonly #certificate: Certificate;
  readonly #handshakeMs: number;
  #port = 0;
  #host = '';
  #url = '';

  protected constructor(server: Server, { certificate, handshakeMs }: ListenerOptions) {
    this.#server = server;
    this.#certificate = certificate;
    this.#handshakeMs = handshakeMs;
    this.connections = new Connections(server);
    this.slowHandshakes();
  }

  /** `https://127.0.0.1:41873` */
  get url(): string {
    return this.#url;
  }

  /** TCP connections that are open now. */
  get openConnections(): number {
    return this.connections.open;
  }

  /** Resets every connection, as a failing network does. */
  dropConnections(): void {
    this.connections.resetAll();
  }

  /** Refuses new connections, and closes the open ones. */
  async down(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.once('close', resolve));
    this.#server.close();
    this.connections.closeAll();
    await closed;
  }

  /** Listens again on the same port. */
  async up(): Promise<void> {
    if (!this.#server.listening) await this.#listen(this.#port, this.#host);
  }

  /** The open connections fall silent in both directions but stay open; new connections are served. */
  freeze(): void {
    this.connections.freezeAll();
  }

  /** Ends `freeze`: what was sent meanwhile arrives now. */
  thaw(): void {
    this.connections.thawAll();
  }

  /** How long new connections wait for the answer to their handshake, in milliseconds. Default: the server's usual wait. */
  slowHandshakes(waitMs: number = this.#handshakeMs): void {
    this.connections.handshakeDelayMs = waitMs;
  }

  /** The certificate for new connections; undefined for the one that the server started with. Open connections stay. */
  useCertificate(certificate: Certificate = this.#certificate): void {
    this.#server.setSecureContext({ ...certificate, minVersion: 'TLSv1.2' });
  }

  /** Starts to listen; port 0 takes any free one. `advertised` is the name that clients are told. */
  async listen(port: number, host: string, advertised: string): Promise<void> {
    await this.#listen(port, host);
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the server listens on no port');
    this.#port = address.port;
    this.#host = host;
    this.#url = `https://${isIPv6(advertised) ? `[${advertised}]` : advertised}:${address.port}`;
  }

  #listen(port: number, host: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
  }
}
