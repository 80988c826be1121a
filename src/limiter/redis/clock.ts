import { within } from '../../domain/time.ts';

/** The estimate uses the last 33 to 64 replies of the last 30 to 60 s, because clocks drift apart by some ms in a minute. */
const GENERATION = { replies: 32, ageMs: 30_000 };

/** Up to 32 successive replies: since when, how many, and the smallest distance between the clocks that they showed. */
interface Generation {
  readonly since: number;
  replies: number;
  offset: number;
}

/**
 * Estimates the distance between the limiter's clock and this process's `performance.now()`. Every reply contains the limiter's
 * `now`, which Redis read between the call and the reply. The estimate takes that `now` as the instant of the reply, so it is
 * wrong by the time that the reply travelled. The fastest of the recent replies is used, since its error is smallest. A reply
 * that a stalled process read late changes nothing.
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
      // The limiter read its clock after `askedAt`, so a lower estimate was made before its clock was set back: drop it.
      const lowest = askedAt - (remoteNow + 1);
      if (offsetBefore < lowest) offsetBefore = Infinity;
      if (latest.offset < lowest) latest.offset = Infinity;
      latest.offset = Math.min(latest.offset, heardAt - remoteNow);
    },
    toLocal: (remoteAt) => remoteAt + Math.min(latest.offset, offsetBefore),
  };
}

/** The part of ioredis that answers Redis's time. */
export interface TimeRedis {
  time(): Promise<readonly (number | string)[]>;
}

/** How many replies are measured at the start, one after the other, and for how long at most. */
const FIRST = { replies: 5, forMs: 1_000 };
/** Redis is asked for its time this often: about six replies in the 30 s of a Generation, even if the worker sends nothing. */
const PROBE_EVERY_MS = 5_000;

/**
 * Keeps the estimate good without traffic. A worker that has just started, or had nothing to send for a minute, knows only the
 * reply to its first ask. If that reply travelled for 100 ms, the alert leaves 100 ms late and no log shows it. If the
 * recipient's next alert comes from a worker with a better estimate, it follows 100 ms too closely.
 */
export function keepClock(clock: Clock, redis: TimeRedis): { readonly measured: Promise<void>; stop(): void } {
  const probe = async (): Promise<void> => {
    const askedAt = performance.now();
    const [seconds, microseconds] = await redis.time();
    clock.observe(askedAt, performance.now(), Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000));
  };
  const first = async (): Promise<void> => {
    const until = performance.now() + FIRST.forMs;
    for (let replies = 0; replies < FIRST.replies && performance.now() < until; replies++) await probe();
  };
  let probing: Promise<void> | undefined;
  const timer = setInterval(() => {
    probing ??= probe()
      .catch(() => undefined) // the connection's owner logs that Redis does not answer
      .finally(() => (probing = undefined));
  }, PROBE_EVERY_MS).unref();
  return {
    measured: within(
      first().catch(() => undefined),
      FIRST.forMs,
    ),
    stop: () => clearInterval(timer),
  };
}
