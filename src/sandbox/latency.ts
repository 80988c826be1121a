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

export function isLatencyOff({ p99Ms }: Latency): boolean {
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
