import type { SecureContext } from 'node:tls';
import type { Endpoint } from './endpoint.ts';
import { exchange, type Exchange, type SendRequest } from './exchange.ts';
import { createPool, StreamPermit } from './pool.ts';
import { unsent, type SendResult, type Unsent, type UnsentCode } from './result.ts';

export interface SenderOptions {
  readonly endpoint: Endpoint;
  /** Trusted certificates; the system's where left out. */
  readonly secureContext?: SecureContext | undefined;
  /** A request without an answer after this is given up. 10,000 ms. */
  readonly requestTimeoutMs?: number | undefined;
  /** How long connecting may take. 5,000 ms. */
  readonly connectTimeoutMs?: number | undefined;
  /** Connections that are kept open while there is nothing to send: while one is replaced, the other carries on. 2. */
  readonly minConnections?: number | undefined;
  /** The most connections under load. 16. */
  readonly maxConnections?: number | undefined;
  /** How often a PING looks after each connection. 30,000 ms. */
  readonly pingEveryMs?: number | undefined;
  /** From 0 to 1, for the waits between two tries to connect. */
  readonly random?: (() => number) | undefined;
}

/** When a request may be sent. */
export interface When {
  /** From `reserve`; used up. Without one, the request waits for a stream. */
  readonly permit?: StreamPermit | undefined;
  /** What was not handed to a connection by then (`performance.now()`) is not sent. Infinity. */
  readonly sendBy?: number | undefined;
  /** Told each time when it has left, with that instant (`performance.now()`). */
  readonly onSent?: ((at: number) => void) | undefined;
}

/**
 * Carries requests to one HTTP/2 server over as many sessions as the load and the server's SETTINGS ask for. It never
 * repeats what may have been processed, and never throws: what became of a request is a SendResult.
 */
export interface Sender {
  /** Sets a stream aside: now, when one is free, or not at all where no connection can be had. */
  reserve(): StreamPermit | Promise<StreamPermit | Unsent>;
  send(request: SendRequest, when?: When): Promise<SendResult>;
  /** Resolves when the first connection is open, or could not be had. */
  connect(): Promise<void>;
  /** Gives up what waits and what is under way. */
  abort(): void;
  /** Takes nothing more; resolves when what was under way has ended and the connections are closed. */
  close(): Promise<void>;
}

const PING_TIMEOUT_MS = 5_000;
/** A request that the server refused unseen is sent again so often, on another stream. */
const MAX_REFUSALS = 3;

/**
 * Node writes what was requested at the end of a turn of the event loop, just before this runs: in a busy process the turn
 * may take long. One for each request: what is requested while these run is written in the next turn.
 */
function tellSent(onSent: (at: number) => void): void {
  onSent(performance.now());
}

export function createSender(options: SenderOptions): Sender {
  const { requestTimeoutMs = 10_000, connectTimeoutMs = 5_000, pingEveryMs = 30_000 } = options;
  const pool = createPool({
    endpoint: options.endpoint,
    secureContext: options.secureContext,
    connectTimeoutMs,
    pingEveryMs,
    pingTimeoutMs: PING_TIMEOUT_MS,
    minConnections: options.minConnections ?? 2,
    maxConnections: options.maxConnections ?? 16,
    random: options.random ?? Math.random,
  });
  const underWay = new Set<Exchange>();
  let isClosed = false;

  async function send(request: SendRequest, { permit, sendBy = Infinity, onSent }: When = {}): Promise<SendResult> {
    let held: StreamPermit | undefined = permit;
    let refusals = 0;
    for (;;) {
      const connection = held?.use();
      const stop = whyStop(sendBy);
      if (stop !== undefined) {
        connection?.giveBack();
        return unsent(stop);
      }
      const sent = connection && exchange(connection, request, requestTimeoutMs);
      if (sent === undefined) {
        // No permit, or its connection has ended.
        const reserved = await pool.reserve(sendBy);
        if (!(reserved instanceof StreamPermit)) return reserved;
        held = reserved;
        continue;
      }
      if (onSent !== undefined) setImmediate(tellSent, onSent);
      underWay.add(sent);
      const result = await sent.result;
      underWay.delete(sent);
      const isRefused = result.kind === 'unsent' && result.code === 'refused-stream';
      if (!isRefused || ++refusals > MAX_REFUSALS) return result;
    }
  }

  /** Why what has not been handed to a connection yet is not sent any more. */
  function whyStop(sendBy: number): UnsentCode | undefined {
    if (isClosed) return 'closed';
    return performance.now() > sendBy ? 'too-late' : undefined;
  }

  return {
    reserve: () => pool.reserve(),
    send,
    connect: () => pool.connect(),
    abort() {
      pool.giveUpWaiting(unsent('cancelled'));
      for (const each of underWay) each.abort();
    },
    async close() {
      isClosed = true;
      pool.end();
      await Promise.allSettled([...underWay].map(({ result }) => result));
      await pool.close();
    },
  };
}
