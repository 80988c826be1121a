/**
 * Only so many first passes begin in one turn of the event loop. When many notifications are enqueued at once, a turn would
 * otherwise serve as many of them as WORKER_CONCURRENCY allows, and what is due would wait for all of them at each of its steps.
 * They begin in the order in which they were taken.
 */
export interface FirstPasses {
  /** Undefined where a pass may begin at once; else resolves when it may. */
  enter(): Promise<void> | undefined;
}

export function createFirstPasses(perTurn: number): FirstPasses {
  const waiting: (() => void)[] = [];
  let left = perTurn;
  let isCounting = false;

  function beginTurn(): void {
    left = perTurn;
    isCounting = waiting.length > 0;
    if (isCounting) setImmediate(beginTurn);
    for (; left > 0 && waiting.length > 0; left -= 1) waiting.shift()?.();
  }

  return {
    enter() {
      if (!isCounting) setImmediate(beginTurn);
      isCounting = true;
      if (left > 0) {
        left -= 1;
        return undefined;
      }
      return new Promise((resolve) => waiting.push(resolve));
    },
  };
}
