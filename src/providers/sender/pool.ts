import { doubledMs } from '../../domain/time.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import { unsent, type Unsent } from './result.ts';

export interface PoolOptions extends ConnectionOptions {
  readonly minConnections: number;
  readonly maxConnections: number;
  readonly random: () => number;
}

/** A stream that is set aside on one connection. */
export class StreamPermit {
  #connection: Connection | undefined;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** The connection, for one request. Undefined where the permit was used or released before. */
  use(): Connection | undefined {
    const connection = this.#connection;
    this.#connection = undefined;
    return connection;
  }

  /** Gives the stream back. */
  release(): void {
    this.use()?.giveBack();
  }
}

/** The connections to one server. */
export interface Pool {
  /** A free stream; the first to ask is the first to get one. Unsent where no connection can be had, or none in time. */
  reserve(until?: number): StreamPermit | Promise<StreamPermit | Unsent>;
  /** Opens the least number of connections. Resolves when one is open, or could not be had. */
  connect(): Promise<void>;
  giveUpWaiting(why: Unsent): void;
  /** No more streams, no more connections. */
  end(): void;
  /** Closes all connections; resolves when they are closed. */
  close(): Promise<void>;
}

/** The wait before the next try to connect: doubled with each failure, the upper half of it by chance. */
const BACKOFF = { firstMs: 250, lastMs: 15_000 };
/** Who asks for a stream while there is no connection at all makes the next try come at once, but not more often than this. */
const RETRY_MS = 500;
/** A connection that ends sooner, and without an answer, counts as a failure to connect. */
const SHORT_LIVED_MS = 10_000;

export function createPool(options: PoolOptions): Pool {
  const { minConnections, maxConnections, random } = options;
  const connections = new Set<Connection>();
  const waiting = new Set<(found: StreamPermit | Unsent) => void>();
  /** Why the last try to connect failed; undefined after one that did not. */
  let failure: Unsent | undefined;
  let failures = 0;
  let failedAt = -Infinity;
  let triedAt = -Infinity;
  let retry: NodeJS.Timeout | undefined;
  let isEnded = false;

  /**
   * A connection without an answer goes first: its first answer tells how many streams it has. Else the oldest that has a
   * free stream: requests that share a connection share system calls.
   */
  function take(): StreamPermit | undefined {
    let found: Connection | undefined;
    for (const candidate of connections) {
      if (candidate.freeStreams === 0) continue;
      found ??= candidate;
      if (candidate.hasAnswered) continue;
      found = candidate;
      break;
    }
    found?.take();
    return found && new StreamPermit(found);
  }

  function serveWaiting(): void {
    for (const resolve of waiting) {
      const permit = take();
      if (permit === undefined) break;
      waiting.delete(resolve);
      resolve(permit);
    }
    grow();
  }

  function giveUpWaiting(why: Unsent): void {
    const all = [...waiting];
    waiting.clear();
    for (const resolve of all) resolve(why);
  }

  function open(): void {
    triedAt = performance.now();
    const openedAt = triedAt;
    let isProven = false;
    const connection = new Connection(options, {
      onOpen() {
        failure = undefined;
        serveWaiting();
      },
      onFree() {
        // Only its first answer tells that connecting works again: older connections go on where new ones are refused.
        if (connection.hasAnswered && !isProven) failures = 0;
        isProven = connection.hasAnswered;
        serveWaiting();
      },
      onEnd(why) {
        connections.delete(connection);
        const isFailure = why !== undefined || (!connection.hasAnswered && connection.ageMs < SHORT_LIVED_MS);
        if (!isFailure) failures = 0;
        else if (openedAt > failedAt) failures += 1; // those that were tried together fail together: that is one failure
        if (isFailure) failedAt = performance.now();
        failure = why ?? failure;
        if (why !== undefined && connections.size === 0) giveUpWaiting(why);
        grow();
      },
    });
    connections.add(connection);
  }

  /** Opens what is missing: the least number always, and more where streams are waited for. After a failure it waits. */
  function grow(): void {
    if (isEnded) return;
    const missing = minConnections - connections.size;
    if (missing <= 0 && waiting.size === 0) return;
    if (failures > 0) retry ??= setTimeout(again, backoffMs(failures, random())).unref();
    else if (missing <= 0) openMore();
    else for (let count = 0; count < missing; count++) open();
  }

  function again(): void {
    retry = undefined;
    if (isEnded) return;
    if (connections.size < minConnections) open();
    else if (waiting.size > 0) openMore();
  }

  /** Only where all that are open are full, and have shown with an answer how many streams the server really allows. */
  function openMore(): void {
    const all = [...connections];
    if (all.some(({ isConnecting, hasAnswered }) => isConnecting || !hasAnswered)) return;
    const perConnection = Math.max(1, ...all.map(({ maxStreams }) => maxStreams));
    const more = Math.min(Math.ceil(waiting.size / perConnection), maxConnections - all.length);
    for (let count = 0; count < more; count++) open();
  }

  function wait(until: number): Promise<StreamPermit | Unsent> {
    return new Promise((resolve) => {
      waiting.add(resolve);
      if (until === Infinity) return;
      const giveUp = (): void => {
        if (waiting.delete(resolve)) resolve(unsent('no-stream'));
      };
      setTimeout(giveUp, Math.max(0, until - performance.now())).unref();
    });
  }

  return {
    reserve(until = Infinity) {
      if (isEnded) return Promise.resolve(unsent('closed'));
      const permit = waiting.size === 0 ? take() : undefined;
      if (permit !== undefined) return permit;
      if (connections.size === 0) {
        if (failure !== undefined && performance.now() - triedAt < RETRY_MS) return Promise.resolve(failure);
        open();
      }
      const found = wait(until);
      grow();
      return found;
    },
    async connect() {
      if (isEnded || [...connections].some(({ freeStreams }) => freeStreams > 0)) return;
      grow();
      const found = await wait(Infinity);
      if (found instanceof StreamPermit) found.release();
    },
    giveUpWaiting,
    end() {
      isEnded = true;
      clearTimeout(retry);
      giveUpWaiting(unsent('closed'));
    },
    async close() {
      await Promise.all([...connections].map((connection) => connection.close()));
    },
  };
}

/** 250 ms after the first failure, doubled with each further one, at most 15 s; the upper half of it by chance. */
export function backoffMs(failures: number, random: number): number {
  return doubledMs(BACKOFF.firstMs, BACKOFF.lastMs, failures - 1) * (0.5 + random / 2);
}
