/** What is governed: BullMQ's Worker takes a new concurrency at any time. */
export interface Governed {
  concurrency: number;
}

export interface Governor {
  stop(): void;
}

/** A loop that is later than this would let an admitted alert wait; half of what the pipeline calls stale. */
const BUSY_MS = 10;
const TICK_MS = 50;
/** Where a cold process begins: its first jobs take ten times as long as later ones. */
const FIRST = 1;

/**
 * Keeps the event loop quick enough that an alert goes out when it was admitted: as many jobs at once as the loop bears,
 * up to `most`. Begins low, grows by a quarter while the loop turns on time, halves when it does not; lateness, not load,
 * decides. What is not taken stays in the queue for other replicas.
 */
export function govern(workers: readonly Governed[], most: number): Governor {
  let allowed = Math.min(FIRST, most);
  let expectedAt = performance.now() + TICK_MS;
  const apply = (): void => {
    for (const worker of workers) worker.concurrency = allowed;
  };
  const timer = setInterval(() => {
    const lateMs = performance.now() - expectedAt;
    expectedAt = performance.now() + TICK_MS;
    allowed = nextConcurrency(allowed, lateMs, most);
    apply();
  }, TICK_MS);
  apply();
  return {
    stop: () => {
      clearInterval(timer);
    },
  };
}

/** The concurrency after a tick that came this late. */
export function nextConcurrency(current: number, lateMs: number, most: number): number {
  if (lateMs > BUSY_MS) return Math.max(1, Math.floor(current / 2));
  return Math.min(most, Math.ceil(current * 1.25));
}
