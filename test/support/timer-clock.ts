import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { onTestFinished, vi } from 'vitest';

/** In place of `performance.now()` until the test ends: time passes only in timers, however slow or busy the machine is. */
export interface TimerClock {
  /** Whole epoch milliseconds, as Redis would read the clock. */
  readonly now: () => number;
  /** As a process that is stopped for so long, or an event loop that is busy. */
  readonly advance: (ms: number) => void;
}

/** What is read later is later, as some code expects of a try after a failure. */
const STEP_MS = 0.000_1;

let current: TimerClock | undefined;

/**
 * When a timer fires, its whole time has passed, and no more. Between timers the clock stands still: a test that must reach an
 * instant reaches it, also if the machine stands still on the way. Timers that keep no process alive do not move the clock, since
 * nobody waits for them.
 */
export function useTimerClock(): TimerClock {
  if (current !== undefined) return current;
  const set = globalThis.setTimeout;
  const sleep = timers.setTimeout;
  let instant = performance.now();
  const moveTo = (at: number): void => {
    instant = Math.max(instant, at);
  };
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => (instant += STEP_MS));
  const setAndMove = <Args extends unknown[]>(run: (...args: Args) => void, ms = 0, ...args: Args): NodeJS.Timeout => {
    const until = instant + ms;
    const timer = set(() => {
      if (timer.hasRef()) moveTo(until);
      run(...args);
    }, ms);
    return timer;
  };
  globalThis.setTimeout = Object.assign(setAndMove, set);
  timers.setTimeout = async (ms = 0, value, options) => {
    const until = instant + ms;
    const slept = await sleep(ms, value, options);
    if (options?.ref !== false) moveTo(until);
    return slept;
  };
  syncBuiltinESMExports();
  current = {
    now: () => Math.floor(performance.timeOrigin + instant),
    advance: (ms) => moveTo(instant + ms),
  };
  onTestFinished(() => {
    current = undefined;
    globalThis.setTimeout = set;
    timers.setTimeout = sleep;
    syncBuiltinESMExports();
    spy.mockRestore();
  });
  return current;
}
