/** What the waker asks of Redis. */
export interface DelayedSet {
  /** `ZRANGE key 0 0 WITHSCORES` on BullMQ's `delayed`: the job that is due next, `[]` where none is. */
  zrange(key: string, start: number, stop: number, withScores: 'WITHSCORES'): Promise<string[]>;
}

export interface WakerOptions {
  /** A connection on which nobody waits in a blocking command. */
  readonly redis: DelayedSet;
  /** `queue.toKey('delayed')`. */
  readonly delayedKey: string;
}

export interface Waker {
  /** This worker put a job back until `dueAt` (epoch milliseconds): be there. */
  note(dueAt: number): void;
  /** Stops; resolves when nothing of it is under way. */
  close(): Promise<void>;
}

/** BullMQ's score of a delayed job: its instant in milliseconds, times this, plus a counter. */
const SCORES_PER_MS = 0x1000;
/** The worker's block ends a round trip after the due instant; earlier than this there is nobody to wake. */
const AFTER_DUE_MS = 1;
/** Jobs due within the same few milliseconds are woken by one command. */
const BUCKET_MS = 2;
/** Still there so soon after: the look came too early, or everybody is busy. Doubled each time, up to the last. */
const FIRST_RETRY_MS = 2;
const LAST_RETRY_MS = 64;
/** Node's timers reach 24 days; a worker that is told of a job that far ahead will not be the one that wakes it. */
const MAX_AHEAD_MS = 86_400_000;

/**
 * Wakes workers when a delayed job is due. A worker blocks in Redis until then, but Redis ends an overdue block only
 * when its event loop turns: without other traffic every 100 ms, at the default `hz 10`. Any command turns it, so the
 * worker that put a job back sends one just after the due instant: a look at the head of the delayed set, which also tells
 * whether that was enough. Only that worker: two dozen that all look at each job keep each other, and the one that has to
 * take it, from the processor. The jobs of a worker that was killed wait for Redis's own turn.
 */
export function startWaker({ redis, delayedKey }: WakerOptions): Waker {
  const timers = new Map<number, NodeJS.Timeout>();
  const looks = new Set<Promise<void>>();
  let isClosed = false;

  function lookAt(at: number, retryMs: number): void {
    const bucket = Math.ceil(at / BUCKET_MS) * BUCKET_MS;
    if (isClosed || timers.has(bucket) || at - Date.now() > MAX_AHEAD_MS) return;
    const fire = (): void => {
      timers.delete(bucket);
      // Away: BullMQ's own connections say so, and look themselves when they are back.
      const look = isOverdue().then(
        (still) => {
          if (still && retryMs <= LAST_RETRY_MS) lookAt(Date.now() + retryMs, 2 * retryMs);
        },
        () => undefined,
      );
      looks.add(look);
      void look.finally(() => looks.delete(look));
    };
    timers.set(bucket, setTimeout(fire, Math.max(0, bucket - Date.now())));
  }

  /** Whether the job that is due next should have been taken by now. */
  async function isOverdue(): Promise<boolean> {
    const [head, score] = await redis.zrange(delayedKey, 0, 0, 'WITHSCORES');
    return head !== undefined && Math.floor(Number(score) / SCORES_PER_MS) < Date.now();
  }

  return {
    note: (dueAt) => {
      lookAt(dueAt + AFTER_DUE_MS, FIRST_RETRY_MS);
    },
    close: async () => {
      isClosed = true;
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
      await Promise.all(looks);
    },
  };
}
