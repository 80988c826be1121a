import { doubledMs } from '../../domain/time.ts';
import { Connection, type ConnectionOptions } from './connection.ts';
import { createReach, unsent, type Unsent } from './result.ts';

export interface PoolOptions extends ConnectionOptions {
  readonly minConnections: number;
  readonly maxConnections: number;
  readonly random: () => number;
}

/** The wait before the next try to connect: doubled with each failure, then multiplied by a random 0.5 to 1. */
const BACKOFF = { firstMs: 250, lastMs: 15_000 };
/** If there is no connection, asking for a stream starts a new try at once, but not sooner than this after the last try. */
const RETRY_MS = 500;
/** A connection that ends sooner than this, without any answer, counts as a failure to connect. */
const SHORT_LIVED_MS = 10_000;

/** The connections to one server. */
export function createPool(options: PoolOptions) {
  const { minConnections, maxConnections, random } = options;
  const connections = new Set<Connection>();
  const waiting = new Waiting<StreamPermit>();
  const reach = createReach(options.endpoint);
  /** Why the last try to connect failed; undefined after a success. */
  let failure: Unsent | undefined;
  let failures = 0;
  let failedAt = -Infinity;
  let triedAt = -Infinity;
  let retry: NodeJS.Timeout | undefined;
  let isEnded = false;

  /**
   * A free stream. Prefers a connection that has not answered yet, since its first answer shows how many streams the server
   * allows. Otherwise takes the oldest connection with a free stream, because requests on one connection share system calls.
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
    waiting.serve(take);
    grow();
  }

  function open(): void {
    triedAt = performance.now();
    const openedAt = triedAt;
    let isProven = false;
    const connection = new Connection(options, {
      onOpen() {
        failure = undefined;
        reach.succeeded();
        serveWaiting();
      },
      onFree() {
        // Only the first answer on a new connection proves that connecting works: old connections may work while new ones fail.
        if (connection.hasAnswered && !isProven) failures = 0;
        isProven = connection.hasAnswered;
        serveWaiting();
      },
      onEnd(why) {
        connections.delete(connection);
        const isFailure = why !== undefined || (!connection.hasAnswered && connection.ageMs < SHORT_LIVED_MS);
        if (!isFailure) failures = 0;
        else if (openedAt > failedAt) failures += 1; // connections that were opened at the same time count as one failure
        if (isFailure) failedAt = performance.now();
        failure = why ?? failure;
        const isOneOpen = [...connections].some(({ isConnecting }) => !isConnecting);
        if (why !== undefined && !isOneOpen) reach.failed(why, openedAt);
        if (why !== undefined && connections.size === 0) waiting.giveUp(why);
        grow();
      },
    });
    connections.add(connection);
  }

  /**
   * Opens missing connections: up to `minConnections` always, more if requests wait. After a failure it waits before the next
   * try.
   */
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

  /**
   * Opens more, but only if all connections are full and have shown, by an answer, how many streams the server really
   * allows.
   */
  function openMore(): void {
    const all = [...connections];
    if (all.some(({ isConnecting, hasAnswered }) => isConnecting || !hasAnswered)) return;
    const perConnection = Math.max(1, ...all.map(({ maxStreams }) => maxStreams));
    const more = Math.min(Math.ceil(waiting.size / perConnection), maxConnections - all.length);
    for (let count = 0; count < more; count++) open();
  }

  return {
    /** A free stream, in the order of asking. Unsent if no connection can be made, or no stream is free in time. */
    reserve(until = Infinity): StreamPermit | Promise<StreamPermit | Unsent> {
      if (isEnded) return Promise.resolve(unsent('closed'));
      const permit = waiting.size === 0 ? take() : undefined;
      if (permit !== undefined) return permit;
      if (connections.size === 0) {
        if (failure !== undefined && performance.now() - triedAt < RETRY_MS) return Promise.resolve(failure);
        open();
      }
      const found = waiting.join(until);
      grow();
      return found;
    },
    /** Opens `minConnections`. Resolves when a connection is open, or could not be opened. */
    async connect(): Promise<void> {
      if (isEnded || [...connections].some(({ freeStreams }) => freeStreams > 0)) return;
      grow();
      const found = await waiting.join(Infinity);
      if (found instanceof StreamPermit) found.release();
    },
    /** Whether the server can be reached; undefined if no connection was tried, or after `end`. */
    reach: () => (isEnded ? undefined : reach.now()),
    giveUpWaiting: (why: Unsent) => waiting.giveUp(why),
    /** From now on gives no streams and opens no connections. */
    end(): void {
      isEnded = true;
      clearTimeout(retry);
      waiting.giveUp(unsent('closed'));
    },
    async close(): Promise<void> {
      await Promise.all([...connections].map((connection) => connection.close()));
    },
  };
}

/** Room for one request on a `Place`, which also takes the room back. */
export class PlacePermit<Place extends { giveBack(): void }> {
  #place: Place | undefined;

  constructor(place: Place) {
    this.#place = place;
  }

  /** The place, for one request. Undefined if the permit was used or released before. */
  use(): Place | undefined {
    const place = this.#place;
    this.#place = undefined;
    return place;
  }

  release(): void {
    this.use()?.giveBack();
  }
}

/** 250 ms after the first failure, doubled with each further failure, at most 15 s; multiplied by 0.5 to 1, by `random`. */
export function backoffMs(failures: number, random: number): number {
  return doubledMs(BACKOFF.firstMs, BACKOFF.lastMs, failures - 1) * (0.5 + random / 2);
}

/** A stream that is set aside on one connection. */
export class StreamPermit extends PlacePermit<Connection> {}

/** The sends that wait for a permit, in the order of asking. */
export class Waiting<Found> {
  readonly #all = new Set<(found: Found | Unsent) => void>();

  get size(): number {
    return this.#all.size;
  }

  /** Resolves with a permit from `serve`, or with an `Unsent`: after `until` (`performance.now()`), or from `giveUp`. */
  join(until: number): Promise<Found | Unsent> {
    return new Promise((resolve) => {
      this.#all.add(resolve);
      if (until === Infinity) return;
      const giveUp = (): void => {
        if (this.#all.delete(resolve)) resolve(unsent('no-stream'));
      };
      setTimeout(giveUp, Math.max(0, until - performance.now())).unref();
    });
  }

  /** Gives permits to the waiting sends, the first one first, until `take` has no more. */
  serve(take: () => Found | undefined): void {
    for (const resolve of this.#all) {
      const found = take();
      if (found === undefined) break;
      this.#all.delete(resolve);
      resolve(found);
    }
  }

  giveUp(why: Unsent): void {
    const all = [...this.#all];
    this.#all.clear();
    for (const resolve of all) resolve(why);
  }
}
