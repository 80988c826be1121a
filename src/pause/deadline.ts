/** Bounds what is asked of something that may never answer. */
export interface Deadline {
  /** What `call` resolves to. Rejects after `timeoutMs`, and at once while an earlier call has been unanswered for longer. */
  ask<T>(call: () => Promise<T>): Promise<T>;
}

/** Calls without an answer do not pile up: the first one that takes too long keeps all others from being made. */
export function createDeadline(timeoutMs: number): Deadline {
  const unanswered = new Set<{ readonly since: number }>();
  return {
    async ask(call) {
      const since = performance.now();
      const [oldest] = unanswered;
      if (oldest !== undefined && since - oldest.since >= timeoutMs) throw new Error('Redis does not answer');
      const asked = { since };
      unanswered.add(asked);
      const answer = call().finally(() => unanswered.delete(asked));
      return within(answer, timeoutMs);
    },
  };
}

function within<T>(answer: Promise<T>, timeoutMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error(`Redis gave no answer within ${timeoutMs} ms`));
    }, timeoutMs).unref();
    answer.then(resolve, reject).finally(() => {
      clearTimeout(timer);
    });
  });
}
