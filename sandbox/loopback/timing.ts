/** How long answers take: a log-normal distribution by two of its points, in milliseconds. */
export interface Latency {
  /** Half of the answers take longer. */
  readonly medianMs: number;
  /** One answer in a hundred takes longer. */
  readonly p99Ms: number;
}

/** What APNs and FCM usually take, measured from a server on the same continent. */
export const DEFAULT_LATENCY: Latency = { medianMs: 40, p99Ms: 250 };
/** Every answer leaves at once. */
export const NO_LATENCY: Latency = { medianMs: 0, p99Ms: 0 };

/** The normal distribution's 99th percentile, in standard deviations. */
const P99_DEVIATIONS = 2.326_347_874;

function isLatencyOff({ p99Ms }: Latency): boolean {
  return p99Ms === 0;
}

/** What is wrong with a latency; undefined if it is valid. */
export function latencyFault({ medianMs, p99Ms }: Latency): string | undefined {
  const isOff = medianMs === 0 && p99Ms === 0;
  if (isOff || (medianMs > 0 && p99Ms >= medianMs && Number.isFinite(p99Ms))) return undefined;
  return `expected a median above 0 ms and a 99th percentile of at least the median, found ${medianMs} ms and ${p99Ms} ms`;
}

/**
 * A function that draws the latency of one answer, in milliseconds; `undefined` if answers leave at once. `random` gives numbers
 * from 0 up to 1; two are drawn for each latency (Box and Muller's method).
 *
 * @throws RangeError if the latency is not valid.
 */
export function latencyDraw(latency: Latency, random: () => number): (() => number) | undefined {
  const fault = latencyFault(latency);
  if (fault !== undefined) throw new RangeError(`latency: ${fault}`);
  if (isLatencyOff(latency)) return undefined;
  const { medianMs, p99Ms } = latency;
  const spread = Math.log(p99Ms / medianMs) / P99_DEVIATIONS;
  return () => {
    const radius = Math.sqrt(-2 * Math.log(1 - random())); // 1 - random() is never 0
    return medianMs * Math.exp(spread * radius * Math.cos(2 * Math.PI * random()));
  };
}

/** How long a loopback provider takes for what it does. */
export interface TimingOptions {
  /** How long answers take. Default: a median of 40 ms and a 99th percentile of 250 ms. */
  readonly latency?: Latency | undefined;
  /** How long a new connection waits for the answer to its TLS handshake. Default: 50, or 0 without latency. */
  readonly handshakeMs?: number;
  /**
   * A connection without a request for about this long is closed: over HTTP/2 after a random 0.5 to 1.5 times as long, over
   * HTTP/1.1 a second later (node:http adds it). Default: a minute, or never (`Infinity`) without latency.
   */
  readonly idleMs?: number;
}

/** The timing of one server. */
export interface Timing {
  /** The latency of the next answer in milliseconds; `undefined` if answers leave at once. */
  readonly drawLatencyMs: (() => number) | undefined;
  readonly handshakeMs: number;
  /** `Infinity` for never. */
  readonly idleMs: number;
  /** How long the next HTTP/2 connection may be idle; `Infinity` for ever. */
  readonly drawIdleMs: () => number;
}

const HANDSHAKE_MS = 50;
const IDLE_MS = 60_000;
/** 1.5 times this still fits into a timer. */
const MAX_IDLE_MS = 86_400_000;

/**
 * `seed` decides the random numbers. The timing has a generator of its own, so that with one seed the rates draw the same
 * numbers, with and without latency.
 *
 * @throws RangeError if a number is out of range.
 */
export function timingOf(options: TimingOptions, seed: number): Timing {
  const { latency = DEFAULT_LATENCY } = options;
  const isOff = isLatencyOff(latency);
  const { handshakeMs = isOff ? 0 : HANDSHAKE_MS, idleMs = isOff ? Infinity : IDLE_MS } = options;
  if (!(handshakeMs >= 0)) throw new RangeError(`handshakeMs: expected 0 or more, found ${handshakeMs}`);
  if (!(idleMs === Infinity || (idleMs > 0 && idleMs <= MAX_IDLE_MS))) {
    throw new RangeError(`idleMs: expected more than 0 and at most ${MAX_IDLE_MS}, or Infinity, found ${idleMs}`);
  }
  const random = seededRandom(seed);
  return {
    drawLatencyMs: latencyDraw(latency, random),
    handshakeMs,
    idleMs,
    drawIdleMs: () => (idleMs === Infinity ? idleMs : idleMs * (0.5 + random())),
  };
}

/** Sends answers after a delay, with one timer each. After `close` none is sent. */
export class LateAnswers {
  readonly #timers = new Set<NodeJS.Timeout>();
  #isClosed = false;

  /** Runs after `waitMs` milliseconds. */
  after(waitMs: number, run: () => void): void {
    if (this.#isClosed) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, waitMs);
    this.#timers.add(timer);
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }
}

/** Random numbers from 0 up to 1, the same sequence for the same seed: mulberry32, 32 bits of state. */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
