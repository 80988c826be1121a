import { setTimeout as sleep } from 'node:timers/promises';
import type { Progress } from '../support/progress.ts';
import type { ChaosQueue } from './queue.ts';

const POLL_MS = 250;

/** Waits until every job has ended, but no longer than `timeoutMs`. Answers how long it took, in milliseconds. */
export async function drain(
  queue: Pick<ChaosQueue, 'open' | 'settled'>,
  timeoutMs: number,
  progress: Pick<Progress, 'update'>,
  signal: AbortSignal,
): Promise<number> {
  const startedAt = performance.now();
  for (;;) {
    const [open, settled] = await Promise.all([queue.open(), queue.settled()]);
    progress.update(settled, open + settled);
    const tookMs = performance.now() - startedAt;
    if (open === 0 || tookMs > timeoutMs) return Math.round(tookMs);
    await sleep(POLL_MS, undefined, { signal });
  }
}
