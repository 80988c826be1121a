import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Sleeps until an instant of `performance.now()`; false if the signal aborted first. Node's timers may fire a fraction of a
 * millisecond early; this never returns early.
 */
export async function sleepUntil(instant: number, signal: AbortSignal): Promise<boolean> {
  for (let leftMs = instant - performance.now(); leftMs > 0; leftMs = instant - performance.now()) {
    if (signal.aborted) break;
    await sleep(Math.ceil(leftMs), undefined, { signal }).catch(() => undefined); // it rejects when the signal aborts
  }
  return !signal.aborted;
}
