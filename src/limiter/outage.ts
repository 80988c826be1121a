import { LimiterUnavailableError } from '../redis/deadline.ts';

export interface OutageGateOptions {
  /** How long after a failure no call is tried. */
  readonly pauseMs: number;
  /** Called with true when calls begin to be answered by `otherwise`, and with false when they no longer are. */
  readonly onChange?: ((isAway: boolean) => void) | undefined;
}

/** A circuit breaker for the limiter's Redis: while it does not answer, calls do not all wait for their timeout. */
export interface OutageGate {
  /**
   * Answers with `call`, or with `otherwise` if `call` rejects with LimiterUnavailableError or is not tried. After a failure no
   * call is tried for `pauseMs`, then one at a time until one is answered. There is no timer: the next call is the trial.
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

  /** A call that was made before the last answer came says nothing about the state now. */
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
