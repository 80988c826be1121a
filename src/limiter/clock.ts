/** How many of the last replies the estimate rests on, and for how long: clocks drift apart by some ms a minute. */
const SAMPLES = 64;
const SAMPLE_AGE_MS = 60_000;

interface Sample {
  readonly heardAt: number;
  readonly offset: number;
}

/**
 * The limiter's clock seen from this process. Every reply tells the limiter's `now`, read at some instant between the
 * call and the reply on `performance.now()`; the quickest reply of late tells the distance of the two clocks best.
 * So an instant is right to the shortest way back, and a reply that lay about in a stalled process does not shift it:
 * its caller sees `performance.now() - sendAt` grow.
 */
export interface Clock {
  /** Takes a reply in: called at `askedAt`, here at `heardAt` (both `performance.now()`), saying `remoteNow` (whole epoch ms). */
  observe(askedAt: number, heardAt: number, remoteNow: number): void;
  /** An instant of the limiter's clock on this process's `performance.now()`. */
  toLocal(remoteAt: number): number;
}

export function createClock(): Clock {
  let samples: Sample[] = [];
  let offset = 0;
  return {
    observe(askedAt, heardAt, remoteNow) {
      const latest = { heardAt, offset: heardAt - remoteNow };
      const lowest = askedAt - (remoteNow + 1); // the limiter read its clock after the call was made
      const recent = samples.filter((sample) => heardAt - sample.heardAt < SAMPLE_AGE_MS);
      // An estimate below the lowest that is possible comes from before the limiter's clock stepped back.
      samples = [...recent.filter((sample) => sample.offset >= lowest), latest].slice(-SAMPLES);
      offset = Math.min(...samples.map((sample) => sample.offset));
    },
    toLocal: (remoteAt) => remoteAt + offset,
  };
}
