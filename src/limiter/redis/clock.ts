/** The estimate rests on the last 33 to 64 replies, and on those of the last 30 to 60 s: clocks drift apart by some ms a minute. */
const GENERATION = { replies: 32, ageMs: 30_000 };

/** Replies of one time: when it began, how many, and the least distance that they told. */
interface Generation {
  readonly since: number;
  replies: number;
  offset: number;
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
      // The limiter read its clock after the call was made. A lower estimate comes from before its clock stepped back.
      const lowest = askedAt - (remoteNow + 1);
      if (offsetBefore < lowest) offsetBefore = Infinity;
      if (latest.offset < lowest) latest.offset = Infinity;
      latest.offset = Math.min(latest.offset, heardAt - remoteNow);
    },
    toLocal: (remoteAt) => remoteAt + Math.min(latest.offset, offsetBefore),
  };
}
