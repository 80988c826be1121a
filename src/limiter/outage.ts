import { LimiterUnavailableError } from '../redis/deadline.ts';

export interface OutageGateOptions {
  /** How long after a failure the next call is tried. */
  readonly pauseMs: number;
  /** Told when calls begin to be answered otherwise (true), and when they no longer are (false). */
  readonly onChange?: ((isAway: boolean) => void) | undefined;
}

/** Keeps calls from waiting one after the other for something that does not answer. */
export interface OutageGate {
  /**
   * What `call` resolves to; what `otherwise` does where it rejects with LimiterUnavailableError, or need not be tried.
   * After a failure nothing is tried for `pauseMs`, then one call at a time, until one is answered. It rests on calls and
   * has no timer: nobody asks, nothing runs.
   */
  run<T>(call: () => Promise<T>, otherwise: () => T | Promise<T>): Promise<T>;
}

export function createOutageGate({ pauseMs, onChange }: OutageGateOptions): OutageGate {
  let isAway = false;
  let isProbing = false;
  let triedAgainAt = 0;
  let answeredAt = -Infinity;

  function turn(away: boolean): void {
    if (isAway === away) return;
    isAway = away;
    onChange?.(away);
  }

  /** A call that was made before the last answer came says nothing about now. */
  function failed(calledAt: number): void {
    if (calledAt < answeredAt) return;
    triedAgainAt = performance.now() + pauseMs;
    turn(true);
  }

  function answered(): void {
    answeredAt = performance.now();
    turn(false);
  }

  return {
    async run(call, otherwise) {
      const isProbe = isAway;
      if (isProbe && (isProbing || performance.now() < triedAgainAt)) return otherwise();
      if (isProbe) isProbing = true;
      const calledAt = performance.now();
      try {
        const answer = await call();
        answered();
        return answer;
      } catch (error) {
        if (!(error instanceof LimiterUnavailableError)) throw error;
        failed(calledAt);
      } finally {
        if (isProbe) isProbing = false;
      }
      return otherwise();
    },
  };
}
