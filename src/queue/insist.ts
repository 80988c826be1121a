import { setTimeout as sleep } from 'node:timers/promises';
import { isNotNow } from '../domain/not-now.ts';

const AGAIN_MS = 250;

/** Repeats the work four times a second while Redis refuses it for now; after `forMs` it rejects with Redis's last error. */
export async function insist<T>(work: () => Promise<T>, forMs: number): Promise<T> {
  const deadline = performance.now() + forMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isNotNow(error) || performance.now() + AGAIN_MS > deadline) throw error;
      await sleep(AGAIN_MS);
    }
  }
}
