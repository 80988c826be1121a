import { setTimeout as sleep } from 'node:timers/promises';

/** Waits for the work, but no longer than this. What it answers is dropped; where it fails in time, so does this. */
export async function within(work: Promise<unknown>, ms: number): Promise<void> {
  const timer = new AbortController();
  try {
    await Promise.race([work, sleep(ms, undefined, { signal: timer.signal }).catch(() => undefined)]);
  } finally {
    timer.abort();
  }
}
