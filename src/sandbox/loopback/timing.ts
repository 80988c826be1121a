import { seededRandom } from '../random.ts';

/** How long answers take: a log-normal distribution by two of its points, in milliseconds. */
export interface Latency {
  /** Half of the answers take longer. */
  readonly medianMs: number;
  /** One answer in a hundred takes longer. */
  readonly p99Ms: number;
}

/** What APNs and FCM take as a rule, seen from a server on the same continent. */
export const DEFAULT_LATENCY: Latency = { medianMs: 40, p99Ms: 250 };
/** Every answer leaves at once. */
export const NO_LATENCY: Latency = { medianMs: 0, p99Ms: 0 };

/** The normal distribution's 99th percentile, in standard deviations. */
const P99_DEVIATIONS = 2.326_347_874;

export function isLatencyOff({ p99Ms }: Latency): boolean {
  return p99Ms === 0;
}

/** What is wrong with a latency; undefined where it can be drawn from. */
export function latencyFault({ medianMs, p99Ms }: Latency): string | undefined {
  const isOff = medianMs === 0 && p99Ms === 0;
  if (isOff || (medianMs > 0 && p99Ms >= medianMs && Number.isFinite(p99Ms))) return undefined;
  return `expected a median above 0 ms and a 99th percentile of at least the median, found ${medianMs} ms and ${p99Ms} ms`;
}

/**
 * Gives one answer's latency a call, in milliseconds; `undefined` in place of the function where answers leave at once.
 * `random` gives numbers from 0 up to 1, and two are drawn for each latency (Box and Muller's method).
 *
 * @throws RangeError where the latency has a fault.
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

/** Answers that leave later: one timer each, and none of them once it is closed. */
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
