import { DEFAULT_LATENCY, isLatencyOff, latencyDraw, type Latency } from './latency.ts';
import { seededRandom } from './random.ts';

/** What a loopback provider takes its time for. */
export interface TimingOptions {
  /** How long answers take; a median of 40 ms and a 99th percentile of 250 ms where left out. */
  readonly latency?: Latency;
  /** How long a new connection waits until its TLS handshake is answered; 50 where answers take time, else 0. */
  readonly handshakeMs?: number;
  /**
   * A connection without a request for about so long is closed: after half to one and a half of it over HTTP/2, after
   * it and the second that node:http grants over HTTP/1.1. A minute where answers take time, else never (`Infinity`).
   */
  readonly idleMs?: number;
}

/** The same, decided for one server. */
export interface Timing {
  /** The latency of the next answer in milliseconds; `undefined` where answers leave at once. */
  readonly drawLatencyMs: (() => number) | undefined;
  readonly handshakeMs: number;
  /** `Infinity` for never. */
  readonly idleMs: number;
  /** How long the next HTTP/2 connection may be idle; `Infinity` for ever. */
  readonly drawIdleMs: () => number;
}

const HANDSHAKE_MS = 50;
const IDLE_MS = 60_000;
/** One and a half of it is still what a timer can wait. */
const MAX_IDLE_MS = 86_400_000;

/**
 * `seed` decides the draws. They have a generator of their own, so that what the rates draw for a seed does not depend
 * on the latency.
 *
 * @throws RangeError where a number does not fit.
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
