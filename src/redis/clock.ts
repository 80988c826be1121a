import { within } from '../domain/time.ts';

/**
 * A reply that contradicts the estimate by more than this shows that a clock was set, or that this machine slept. A reply that
 * contradicts it by less shows that the two clocks drift apart: some milliseconds in a minute.
 */
const WAS_SET_MS = 50;

/**
 * Estimates Redis's clock from this process's `performance.now()`, which nobody can set. Every reply contains Redis's time, and
 * Redis read it between the ask and the reply. So each reply gives a range for the distance between the two clocks, as wide as
 * the round trip. The estimate stays as it is while it lies in that range, else it moves to the nearest end of it. So a slow
 * reply changes nothing that quick ones have shown, and nor does a reply that a stalled process read late. After the first reply,
 * and where a clock was set, the estimate is the middle of the range: right if both ways take the same time.
 */
export interface Clock {
  /** Adds a reply: asked at `askedAt`, read at `heardAt` (both `performance.now()`), with `remoteNow` (whole epoch ms) in it. */
  observe(askedAt: number, heardAt: number, remoteNow: number): void;
  /** Redis's time now, in whole epoch milliseconds. Before the first reply it is this machine's time. */
  now(): number;
  /** Converts an instant of Redis's clock to this process's `performance.now()`. */
  toLocal(remoteAt: number): number;
}

export function createClock(): Clock {
  /** `performance.now()` minus Redis's time; undefined until the first reply. */
  let offset: number | undefined;
  return {
    observe(askedAt, heardAt, remoteNow) {
      const [least, most] = [askedAt - (remoteNow + 1), heardAt - remoteNow];
      const middle = (least + most) / 2;
      const nearest = Math.max(least, Math.min(offset ?? middle, most));
      offset = Math.abs(nearest - (offset ?? middle)) > WAS_SET_MS ? middle : nearest;
    },
    now: () => (offset === undefined ? Date.now() : Math.floor(performance.now() - offset)),
    toLocal: (remoteAt) => remoteAt + (offset ?? performance.now() - Date.now()),
  };
}

/** How many replies are measured at the start, one after the other, and for how long at most. */
const FIRST = { replies: 5, forMs: 1_000 };
/** Redis is asked for its time this often, even if the worker sends nothing. */
const PROBE_EVERY_MS = 5_000;

interface KeepOptions {
  readonly everyMs?: number;
  /** Called after each reply to a probe. */
  readonly onReply?: () => void;
}

/**
 * Keeps the estimate good without traffic. A worker that has just started, or had nothing to send for a long time, knows only
 * the reply to its first ask. If that reply travelled for 100 ms, the alert leaves up to 100 ms late or early, and no log shows
 * it: the recipient's next alert, from a worker with a better estimate, can follow 100 ms too closely.
 *
 * @param readTime asks Redis for its time: seconds and microseconds, as TIME answers them
 */
export function keepClock(
  clock: Pick<Clock, 'observe'>,
  readTime: () => Promise<readonly (number | string)[]>,
  { everyMs = PROBE_EVERY_MS, onReply }: KeepOptions = {},
): { readonly measured: Promise<void>; stop(): void } {
  let isStopped = false;
  const probe = async (): Promise<void> => {
    const askedAt = performance.now();
    const time = await readTime();
    if (isStopped) return;
    clock.observe(askedAt, performance.now(), wholeMs(time));
    onReply?.();
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
  }, everyMs).unref();
  return {
    measured: within(
      first().catch(() => undefined),
      FIRST.forMs,
    ),
    stop: () => {
      isStopped = true;
      clearInterval(timer);
    },
  };
}

/** What TIME answers, in whole epoch milliseconds. */
export function wholeMs([seconds, microseconds]: readonly (number | string)[]): number {
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}
