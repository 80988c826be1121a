import { DEFAULT_LATENCY, isLatencyOff, latencyDraw, type Latency } from './latency.ts';
import { seededRandom } from './random.ts';

/** How long a loopback provider takes for what it does. */
export interface TimingOptions {
  /** How long answers take. Default: a median of 40 ms and a 99th percentile of 250 ms. */
  readonly latency?: Latency;
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
