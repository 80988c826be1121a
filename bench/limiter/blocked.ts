/** One job's ask at an instant: its wait, or undefined if it is admitted. */
export type AskOnce = (job: number, nowMs: number) => Promise<number | undefined>;

/** Far above what any of the compared limiters needs for 1,000 jobs. */
const MAX_ASKS = 2_000_000;

/**
 * All jobs ask at once, and each comes back exactly after its wait, until all are admitted. Jobs that are due at the same instant
 * ask in their order. The clock is simulated: it does not move during an ask.
 */
export async function asksUntilAllPassed(jobs: number, startMs: number, ask: AskOnce): Promise<number> {
  const due = new Map<number, number[]>([[startMs, Array.from({ length: jobs }, (_, job) => job)]]);
  let asks = 0;
  while (due.size > 0) {
    const nowMs = Math.min(...due.keys());
    const batch = due.get(nowMs) ?? [];
    due.delete(nowMs);
    for (const job of batch.toSorted((a, b) => a - b)) {
      asks += 1;
      const waitMs = await ask(job, nowMs);
      if (waitMs === undefined) continue;
      if (!(waitMs > 0) || asks >= MAX_ASKS)
        throw new Error(`after ${asks} asks: expected a wait above 0 ms and fewer asks, found a wait of ${waitMs} ms`);
      const at = nowMs + waitMs;
      due.set(at, [...(due.get(at) ?? []), job]);
    }
  }
  return asks;
}
