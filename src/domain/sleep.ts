import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Sleeps until an instant of `performance.now()`; false where the signal came first. Timers may fire a fraction of a
 * millisecond early; this does not.
 */
export async function sleepUntil(instant: number, signal: AbortSignal): Promise<boolean> {
  for (let leftMs = instant - performance.now(); leftMs > 0; leftMs = instant - performance.now()) {
    if (signal.aborted) break;
    await sleep(Math.ceil(leftMs), undefined, { signal }).catch(() => undefined); // rejects where the signal comes
  }
  return !signal.aborted;
}
