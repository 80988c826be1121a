import type { Platform } from '../domain/notification.ts';

/**
 * When an alert reached its provider, as far as a worker can tell: somewhere between its send and the answer. The
 * quickest answer of late is the time that the way takes at best; what an answer took longer than that may have been spent
 * before the alert arrived (a busy event loop, a full connection), so it is counted as if it had been.
 */
export interface Transit {
  /** Takes one answer in (both instants `performance.now()`), and tells the latest likely arrival, never before the send. */
  readonly arrival: (platform: Platform, sentAt: number, repliedAt: number) => number;
}

/** How many of the last answers the estimate rests on: providers' own speed changes over minutes. */
const SAMPLES = 64;
/** With fewer than this nobody knows how quick the way is: the alert is counted from its answer. */
const ENOUGH = 8;

export function createTransit(): Transit {
  const samples = new Map<Platform, number[]>();
  return {
    arrival(platform, sentAt, repliedAt) {
      const latest = [...(samples.get(platform) ?? []), repliedAt - sentAt].slice(-SAMPLES);
      samples.set(platform, latest);
      return latest.length < ENOUGH ? repliedAt : repliedAt - Math.min(...latest);
    },
  };
}
