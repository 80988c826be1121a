/** The machine stood still for so long, and went on at this instant (epoch milliseconds, as in the journal). */
export interface Stall {
  readonly at: number;
  readonly ms: number;
}

/** Measures continuously how late this process sees what arrives. */
export interface DelayWatch {
  /**
   * How late something that this process saw at this instant may have been seen, in milliseconds: it arrived between
   * `at - delayMs` and `at`. 0 if that is less than the watch can tell, and for what happened more than 5 s ago.
   */
  delayMs(at: number): number;
  stop(): void;
}

const TICK_MS = 5;
/** At least 5 s: a request is looked up when its body has been read. */
const KEPT_TICKS = 1_000;
/** If two ticks of an idle process with high priority are this much too far apart, the machine itself stood still. */
const STALL_MS = 20;

/**
 * A timer of 5 ms, and the last thousand instants at which it ran. Between two of them the process has asked the kernel at least
 * once for what had arrived. So what it sees after a tick arrived after the tick before that one. The bound holds for whatever
 * kept the process from looking: other requests, code that is compiled for the first time, or no processor.
 */
export function watchDelays(
  onStall: (stall: Stall) => void = () => undefined,
  now: () => number = epochMs,
): DelayWatch {
  const ticks = [now()];
  const timer = setInterval(() => {
    const at = now();
    const ms = at - (ticks.at(-1) ?? at) - TICK_MS;
    ticks.push(at);
    if (ticks.length > KEPT_TICKS) ticks.shift();
    if (ms > STALL_MS) onStall({ at, ms });
  }, TICK_MS).unref();
  return {
    delayMs(at) {
      const last = ticks.findLastIndex((tick) => tick <= at);
      const before = ticks[Math.max(0, last - 1)];
      if (last < 0 || before === undefined) return 0;
      // Of a timer that is on time nothing is to be said: without a delay, the tick before the last is up to two ticks ago.
      const delayMs = at - before - TICK_MS;
      return delayMs <= 2 * TICK_MS ? 0 : delayMs;
    },
    stop: () => clearInterval(timer),
  };
}

/** On a clock that is never set. */
function epochMs(): number {
  return performance.timeOrigin + performance.now();
}
