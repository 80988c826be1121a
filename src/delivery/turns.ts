import { sleepUntil } from '../domain/time.ts';

/**
 * The passes of one recipient ask for their slots in the order in which this worker took the jobs, whichever of them gets a
 * stream first: the limiter gives slots in the order of asking.
 */
export interface Turns {
  /** Called in the order that is kept. Resolves when the turns before have ended; what it answers ends this turn. */
  take(recipientId: string): Promise<EndTurn> | EndTurn;
}

/** May be called more than once. */
export type EndTurn = () => void;

/** Longer than this no pass waits for those before: one of them may wait for a provider that cannot be connected to. */
const MAX_WAIT_MS = 1_000;

export function createTurns(maxWaitMs: number = MAX_WAIT_MS): Turns {
  /** The latest turn of each recipient that has not ended. */
  const latest = new Map<string, Turn>();
  return {
    take(recipientId) {
      const before = latest.get(recipientId);
      const turn: Turn = { ended: undefined };
      latest.set(recipientId, turn);
      const end = (): void => {
        if (latest.get(recipientId) === turn) latest.delete(recipientId);
        turn.ended?.resolve();
      };
      if (before === undefined) return end;
      before.ended ??= Promise.withResolvers();
      return waitFor(before.ended.promise, maxWaitMs).then(() => end);
    },
  };
}

interface Turn {
  /** Created when another pass waits for it. */
  ended: PromiseWithResolvers<void> | undefined;
}

async function waitFor(before: Promise<unknown>, maxWaitMs: number): Promise<void> {
  const timer = new AbortController();
  await Promise.race([before, sleepUntil(performance.now() + maxWaitMs, timer.signal)]);
  timer.abort();
}
