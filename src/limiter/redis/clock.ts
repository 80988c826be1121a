/** The estimate uses the last 33 to 64 replies of the last 30 to 60 s, because clocks drift apart by some ms in a minute. */
const GENERATION = { replies: 32, ageMs: 30_000 };

/** Up to 32 successive replies: since when, how many, and the smallest distance of the clocks that they showed. */
interface Generation {
  readonly since: number;
  replies: number;
  offset: number;
}

/**
 * Estimates the distance between the limiter's clock and this process's `performance.now()`. Every reply contains the limiter's
 * `now`, which it read between the call and the reply. The estimate takes that `now` as the instant of the reply, so it is wrong
 * by the time that the reply travelled; of the recent replies the fastest one has the smallest error, and is used. A reply that
 * this process read late because it was stalled does not change the estimate.
 */
export interface Clock {
  /** Adds a reply: asked at `askedAt`, read at `heardAt` (both `performance.now()`), with `remoteNow` (whole epoch ms) in it. */
  observe(askedAt: number, heardAt: number, remoteNow: number): void;
  /** Converts an instant of the limiter's clock to this process's `performance.now()`. */
  toLocal(remoteAt: number): number;
}

export function createClock(): Clock {
  let latest: Generation = { since: -Infinity, replies: 0, offset: Infinity };
  let offsetBefore = Infinity;

  function turnOver(heardAt: number): void {
    const ageMs = heardAt - latest.since;
    if (latest.replies < GENERATION.replies && ageMs < GENERATION.ageMs) return;
    offsetBefore = ageMs < 2 * GENERATION.ageMs ? latest.offset : Infinity;
    latest = { since: heardAt, replies: 0, offset: Infinity };
  }

  return {
    observe(askedAt, heardAt, remoteNow) {
      turnOver(heardAt);
      latest.replies += 1;
      // The limiter read its clock after `askedAt`, so a lower estimate is from before its clock was set back: drop it.
      const lowest = askedAt - (remoteNow + 1);
      if (offsetBefore < lowest) offsetBefore = Infinity;
      if (latest.offset < lowest) latest.offset = Infinity;
      latest.offset = Math.min(latest.offset, heardAt - remoteNow);
    },
    toLocal: (remoteAt) => remoteAt + Math.min(latest.offset, offsetBefore),
  };
}
