import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as secure } from 'node:tls';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import type { Endpoint } from './endpoint.ts';

/** A request that was let go, as far as the way out of this process has to know it. */
export interface Departure {
  /** `performance.now()` when somebody last looked whether it may leave. */
  readonly lookedAt: number;
  /** `performance.now()` after which it must not leave. */
  readonly leaveBy: number;
  /** Told that nothing of it has left, and nothing of it will. */
  keepBack(): void;
}

/**
 * From the last look to the system call pass a few milliseconds. Garbage collection and busy loops make that tens or some
 * hundreds, and a connection must not die of them; who takes half a second was stopped. So late is also the latest that
 * a slot may be used (src/delivery/slot.ts).
 */
const STOPPED_MS = 500;
/** An answer that came while the process stood still is read in this time. */
export const READ_MS = 250;

type Written = (error?: Error | null) => void;

/**
 * The last piece of JavaScript between a request and the network: it stands between TLS and TCP. HTTP/2 and TLS write
 * what they were given a turn of the event loop later, or more, when nobody looks; a process that is stopped in between
 * would send it when it goes on. Here that is kept back, and since TLS knows no gaps, so is all that follows: the
 * connection is `shut`, and another one has to be taken for what comes next.
 */
export class Outlet extends Duplex {
  readonly #raw: Socket;
  /** Nothing was written since these were made. */
  readonly #made = new Set<Departure>();
  /** Something was: it may have been theirs, or not yet, since HTTP/2 and TLS have buffers of their own. */
  readonly #leaving = new Set<Departure>();
  #isShut = false;

  constructor({ host, port }: Endpoint) {
    super({ allowHalfOpen: false });
    const raw = connect({ host, port, noDelay: true });
    raw.on('data', (chunk) => {
      if (!this.push(chunk)) raw.pause();
    });
    raw.once('end', () => this.push(null));
    raw.once('error', (error) => this.destroy(error));
    // What was read before it may still be on its way to the reader.
    raw.once('close', () => {
      if (this.readableEnded) this.destroy();
      else this.once('end', () => this.destroy());
    });
    this.#raw = raw;
  }

  /** To be told of a request that was let go, before any of it is written; returns what is called when all of it is. */
  expect(departure: Departure): () => void {
    this.#made.add(departure);
    return () => {
      this.#made.delete(departure);
      this.#leaving.delete(departure);
    };
  }

  /** The same as `tls.connect`, by this way. */
  secure(options: ConnectionOptions): TLSSocket {
    return this.carry(secure({ ...options, socket: this }));
  }

  /** To be told of the TLS that was put on top; gives it back. */
  carry(socket: TLSSocket): TLSSocket {
    outlets.set(socket, this);
    const raw = this.#raw;
    // TLS hands these on to the TCP that it stands on, but not to a stream.
    return Object.assign(socket, {
      ref: () => (raw.ref(), socket),
      unref: () => (raw.unref(), socket),
      setKeepAlive: (...settings: Parameters<Socket['setKeepAlive']>) => (raw.setKeepAlive(...settings), socket),
    });
  }

  override _read(): void {
    this.#raw.resume();
  }

  // What is kept back counts as written: HTTP/2 reads no answers while a write of its own is under way.
  override _write(chunk: Buffer, _encoding: BufferEncoding, onWritten: Written): void {
    if (this.#maySend()) this.#raw.write(chunk, onWritten);
    else onWritten();
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], onWritten: Written): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), 'binary', onWritten);
  }

  override _final(onEnded: Written): void {
    if (this.#isShut)
      onEnded(); // the other side might take the end for ours, and not answer any more
    else this.#raw.end(onEnded);
  }

  override _destroy(error: Error | null, onDestroyed: Written): void {
    this.#raw.destroy();
    onDestroyed(error);
  }

  /** Not where something that is to be written now was let go so long ago that this process was stopped since. */
  #maySend(): boolean {
    if (this.#isShut) return false;
    const now = performance.now();
    if (hasLate(this.#made, now) || hasLate(this.#leaving, now)) {
      this.#shut();
      return false;
    }
    for (const departure of this.#made) this.#leaving.add(departure);
    this.#made.clear();
    return true;
  }

  #shut(): void {
    this.#isShut = true;
    // HTTP/2 is in the middle of its write.
    process.nextTick(() => {
      this.emit('shut');
      for (const departure of this.#made) departure.keepBack();
      this.#made.clear();
    });
    const timer = setTimeout(() => {
      const error = new Error('this process was stopped for too long to go on sending');
      this.destroy(Object.assign(error, { code: 'ECONNRESET' }));
    }, READ_MS);
    this.once('close', () => clearTimeout(timer));
  }
}

/** They are in the order in which somebody looked, so those that are recent end the search. */
function hasLate(departures: ReadonlySet<Departure>, now: number): boolean {
  for (const { lookedAt, leaveBy } of departures) {
    if (now - lookedAt < STOPPED_MS) return false;
    if (now > leaveBy) return true;
  }
  return false;
}

const outlets = new WeakMap<Duplex, Outlet>();

/** The way out of a connection that has one. */
export function outletOf(socket: Duplex): Outlet | undefined {
  return outlets.get(socket);
}
