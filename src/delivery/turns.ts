import { sleepUntil } from '../domain/time.ts';

/**
 * Lets the passes of one recipient ask for their slots in the order in which this worker took up the jobs, whichever of
 * them gets a stream first: slots are handed out in the order of asking.
 */
export interface Turns {
  /** The order of the calls counts. Resolves when all before have ended their turn; what it answers ends this one. */
  take(recipientId: string): Promise<EndTurn> | EndTurn;
}

/** May be called more than once. */
export type EndTurn = () => void;

/** Nobody waits longer for those before: one whose provider cannot be connected to must not hold up all others for long. */
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
  /** Made when somebody waits for it. */
  ended: PromiseWithResolvers<void> | undefined;
}

async function waitFor(before: Promise<unknown>, maxWaitMs: number): Promise<void> {
  const timer = new AbortController();
  await Promise.race([before, sleepUntil(performance.now() + maxWaitMs, timer.signal)]);
  timer.abort();
}
