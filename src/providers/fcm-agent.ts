import type { ClientRequest } from 'node:http';
import { Agent } from 'node:https';
import type { RequestOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import type { ConnectionOptions, SecureContext, TLSSocket } from 'node:tls';
import { limitHandshake, VERIFIED } from './endpoint.ts';
import type { Endpoint } from './endpoint.ts';
import { holdUntilSecured } from './held-request.ts';
import { Outlet, outletOf } from './outlet.ts';
import { currentWire } from './wire.ts';

/** Where FCM is, and the name that its certificate is checked for wherever the connections go. */
export const FCM_HOST = 'fcm.googleapis.com';
/** A spare whose peer is gone without a word is found out by TCP's own probes, after this and some seconds. */
const PROBE_AFTER_MS = 30_000;

export interface FcmAgentOptions {
  readonly endpoint: Endpoint;
  readonly secureContext: SecureContext | undefined;
  /** The most connections; HTTP/1.1 takes one for each send that is under way. */
  readonly connections: number;
}

/** Node's Agent has this method; its types do not, since it is Node itself that calls it. */
interface RequestTaker {
  addRequest(request: ClientRequest, ...rest: readonly unknown[]): void;
}

/**
 * Keeps connections to FCM alive, opens them ahead of need, leads them to another host where one is set, and lets a
 * try know how far its request got.
 */
export class FcmAgent extends Agent {
  readonly #endpoint: Endpoint;
  readonly #target: ConnectionOptions;
  readonly #connections: number;
  /** All that are open or being opened. */
  readonly #open = new Set<TLSSocket>();
  /** Those that are through with their handshake, and when they last gave an answer. */
  readonly #heardAtMs = new WeakMap<Duplex, number>();
  /** Opened ahead of need; no request has been on them. */
  readonly #spares = new Set<TLSSocket>();
  #isKeptFull = false;
  #isClosed = false;

  constructor({ endpoint, secureContext, connections }: FcmAgentOptions) {
    // The most recently used connection first: it is the least likely to have been closed by the other side.
    super({ keepAlive: true, maxSockets: connections, scheduling: 'lifo' });
    this.#connections = connections;
    this.#endpoint = endpoint;
    this.#target = {
      ...endpoint,
      servername: FCM_HOST,
      ...VERIFIED,
      ...(secureContext === undefined ? {} : { secureContext }),
    };
    this.on('free', (socket: Duplex) => {
      this.#heardAtMs.set(socket, performance.now());
    });
  }

  /** Opens connections until there are as many as allowed; resolves once those are usable or have failed. */
  async fill(): Promise<void> {
    this.#isKeptFull = true;
    const missing = this.#isClosed ? 0 : Math.max(0, this.#connections - this.#open.size);
    await Promise.all(Array.from({ length: missing }, () => this.#openSpare()));
  }

  override createConnection(options: RequestOptions, callback?: (error: Error | null, stream: Duplex) => void) {
    const [spare] = this.#spares;
    if (spare !== undefined) {
      this.#spares.delete(spare);
      spare.removeAllListeners('data').removeAllListeners('end');
      return spare;
    }
    const outlet = new Outlet(this.#endpoint);
    const socket = super.createConnection({ ...options, ...this.#target, socket: outlet } as RequestOptions, callback);
    this.#follow(outlet.carry(socket as TLSSocket));
    return socket;
  }

  addRequest(request: ClientRequest, ...rest: readonly unknown[]): void {
    const wire = currentWire();
    let leftAtMs: number | undefined;
    // Just before it is written.
    request.once('socket', (socket) => {
      leftAtMs = performance.now();
      if (wire === undefined) return;
      const { departure } = wire;
      const keepBack = (): void => {
        leftAtMs = undefined;
        departure.keepBack();
      };
      const forget = outletOf(socket)?.expect({ ...departure, keepBack });
      if (forget !== undefined) request.once('finish', forget).once('close', forget);
    });
    wire?.follow(
      () => {
        request.destroy();
        if (leftAtMs !== undefined) this.#distrustIdle(leftAtMs);
      },
      () => leftAtMs !== undefined,
    );
    holdUntilSecured(
      request,
      (socket) => this.#heardAtMs.has(socket),
      () => wire?.mayLeave(),
    );
    // firebase-admin's own time limit of 15 s: ours knows how far the request got.
    request.setTimeout = () => request;
    (Agent.prototype as unknown as RequestTaker).addRequest.call(this, request, ...rest);
  }

  override destroy(): void {
    this.#isClosed = true;
    super.destroy();
    for (const socket of this.#open) socket.destroy();
  }

  /** Where one connection has gone silent, those that have given no answer since may have, too. */
  #distrustIdle(sinceMs: number): void {
    const kept = Object.values(this.freeSockets).flatMap((sockets) => (sockets ?? []) as TLSSocket[]);
    const silent = [...this.#spares, ...kept].filter((socket) => (this.#heardAtMs.get(socket) ?? 0) < sinceMs);
    for (const socket of silent) {
      this.#open.delete(socket);
      this.#spares.delete(socket);
      // Takes it from Node's free ones at once, and not when it has closed: the last one is the next to be used.
      socket.destroy().emit('agentRemove');
    }
    if (silent.length > 0 && this.#isKeptFull) void this.fill();
  }

  #openSpare(): Promise<void> {
    const socket = new Outlet(this.#endpoint).secure({ ...this.#target, ALPNProtocols: ['http/1.1'] });
    this.#follow(socket);
    return new Promise((resolve) => {
      socket.once('close', () => {
        this.#spares.delete(socket);
        resolve();
      });
      socket.once('secureConnect', () => {
        this.#spares.add(socket.setKeepAlive(true, PROBE_AFTER_MS));
        // Read, so that the other side's end is noticed; what it says unasked is no answer to anything.
        socket.once('data', () => socket.destroy()).once('end', () => socket.destroy());
        resolve();
      });
    });
  }

  #follow(socket: TLSSocket): void {
    this.#open.add(socket);
    limitHandshake(socket);
    socket.once('secureConnect', () => this.#heardAtMs.set(socket, performance.now()));
    socket.once('close', () => this.#open.delete(socket));
    // An answer may still come; what cannot be written is not used again.
    outletOf(socket)?.once('shut', () => socket.end());
    // Whoever uses it hears of the error too; while nobody does, its closing is all that matters.
    socket.on('error', () => undefined);
  }
}
