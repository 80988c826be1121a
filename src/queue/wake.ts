/** What the waker asks of Redis. */
export interface DelayedSet {
  /** `ZRANGE key 0 0 WITHSCORES` on BullMQ's `delayed`: the job that is due next, `[]` where none is. */
  zrange(key: string, start: number, stop: number, withScores: 'WITHSCORES'): Promise<string[]>;
}

export interface WakerOptions {
  /** A connection on which nobody waits in a blocking command. */
  readonly redis: DelayedSet;
  /** `queue.keys.delayed`. */
  readonly delayedKey: string;
  /** How often an idle waker looks for jobs that others delayed; 1,000 ms. */
  readonly idleMs?: number;
}

export interface Waker {
  /** A job was delayed until `dueAt` (epoch milliseconds): be there. */
  note(dueAt: number): void;
  /** Stops; resolves when nothing of it is under way. */
  close(): Promise<void>;
}

/** BullMQ's score of a delayed job: its instant in milliseconds, times this, plus a counter. */
const SCORES_PER_MS = 0x1000;
/** The worker's block ends a round trip after the due instant; earlier than this there is nobody to wake. */
const AFTER_DUE_MS = 1;
/** Still there so soon after: the look came too early, or everybody is busy. Doubled each time. */
const FIRST_RETRY_MS = 2;

/**
 * Wakes workers when a delayed job is due. A worker blocks in Redis until then, but Redis ends an overdue block only
 * when its event loop turns: without other traffic every 100 ms, at the default `hz 10`. Any command turns it, so the
 * waker sends one just after each due instant: a look at the head of the delayed set, which also tells the next one.
 * Every worker looks, so the jobs of one that was killed are woken too. The set is in order, so one timer is enough
 * however many jobs wait; jobs due within the same two milliseconds are woken by one command.
 */
export function startWaker({ redis, delayedKey, idleMs = 1_000 }: WakerOptions): Waker {
  let timer: NodeJS.Timeout | undefined;
  let timerAt = Infinity;
  let look: Promise<void> | undefined;
  let isAskedAgain = false;
  let isClosed = false;
  let overdueHead = '';
  let retryMs = FIRST_RETRY_MS;

  function schedule(at: number): void {
    if (isClosed || at >= timerAt) return;
    clearTimeout(timer);
    timerAt = at;
    timer = setTimeout(fire, Math.max(0, Math.ceil(at - Date.now())));
  }

  function fire(): void {
    timerAt = Infinity;
    // One look at a time: while Redis is away they would pile up.
    if (look !== undefined) {
      isAskedAgain = true;
      return;
    }
    look = next()
      .catch(() => Date.now() + idleMs) // away: BullMQ's own connections say so
      .then((at) => {
        look = undefined;
        schedule(isAskedAgain ? Date.now() : at);
        isAskedAgain = false;
      });
  }

  /** Looks, and answers when to look again. */
  async function next(): Promise<number> {
    const [head, score] = await redis.zrange(delayedKey, 0, 0, 'WITHSCORES');
    const now = Date.now();
    const idleAt = now + idleMs;
    if (head === undefined) return idleAt;
    const dueAt = Math.floor(Number(score) / SCORES_PER_MS);
    if (dueAt + AFTER_DUE_MS > now) return Math.min(idleAt, dueAt + AFTER_DUE_MS);
    retryMs = head === overdueHead ? Math.min(2 * retryMs, idleMs) : FIRST_RETRY_MS;
    overdueHead = head;
    return now + retryMs;
  }

  schedule(Date.now());
  return {
    note: (dueAt) => {
      schedule(dueAt + AFTER_DUE_MS);
    },
    close: async () => {
      isClosed = true;
      clearTimeout(timer);
      await look;
    },
  };
}
