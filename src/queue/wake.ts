import TinyQueue from 'tinyqueue';
import { dueAtOfScore } from './bullmq-internals.ts';

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
  /** Redis's clock minus this machine's, in milliseconds: due times in Redis are on Redis's clock. 0 where it is left out. */
  readonly offsetMs?: () => number;
}

export interface Waker {
  /** This worker put a job back until `dueAt` (epoch milliseconds on this machine's clock): be there. */
  note(dueAt: number): void;
  /** Stops; resolves when nothing of it is under way. */
  close(): Promise<void>;
}

/** The worker's block ends a round trip after the due instant; earlier than this there is nobody to wake. */
const AFTER_DUE_MS = 1;
/** Jobs due within the same few milliseconds are woken by one command. */
const BUCKET_MS = 2;
/** Still there so soon after: the look came too early, or everybody is busy. Doubled each time, up to the last. */
const FIRST_RETRY_MS = 2;
const LAST_RETRY_MS = 64;
/** A worker that is told of a job further ahead than this will not be the one that wakes it. */
const MAX_AHEAD_MS = 86_400_000;

/**
 * Wakes workers when a delayed job is due. A worker blocks in Redis until then, but Redis ends an overdue block only
 * when its event loop turns: without other traffic every 100 ms, at the default `hz 10`. Any command turns it, so the
 * worker that put a job back sends one just after the due instant: a look at the head of the delayed set, which also tells
 * whether that was enough. Only that worker: two dozen that all look at each job keep each other, and the one that has to
 * take it, from the processor. The jobs of a worker that was killed wait for Redis's own turn.
 *
 * There is one timer, for the next instant; a timer for each of a million waiting jobs takes 450 MB.
 */
export function startWaker({ redis, delayedKey, offsetMs = () => 0 }: WakerOptions): Waker {
  /** The instants to look at, each rounded up to its bucket; every bucket is in both once. */
  const upcoming = new TinyQueue<number>();
  const retries = new Map<number, number>();
  const looks = new Set<Promise<void>>();
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  function lookAt(at: number, retryMs: number): void {
    const bucket = Math.ceil(at / BUCKET_MS) * BUCKET_MS;
    if (isClosed || retries.has(bucket) || at - Date.now() > MAX_AHEAD_MS) return;
    retries.set(bucket, retryMs);
    upcoming.push(bucket);
    if (upcoming.peek() === bucket) setTimer();
  }

  function setTimer(): void {
    clearTimeout(timer);
    const next = upcoming.peek();
    timer = next === undefined ? undefined : setTimeout(fire, Math.max(0, next - Date.now()));
  }

  function fire(): void {
    const retryMs = takeDue();
    setTimer();
    if (retryMs === undefined) return;
    // Away: BullMQ's own connections say so, and look themselves when they are back.
    const look = isOverdue().then(
      (still) => {
        if (still && retryMs <= LAST_RETRY_MS) lookAt(Date.now() + retryMs, 2 * retryMs);
      },
      () => undefined,
    );
    looks.add(look);
    void look.finally(() => looks.delete(look));
  }

  /** Takes out every bucket whose instant has come, and answers their shortest retry: after a busy moment one look serves all. */
  function takeDue(): number | undefined {
    let shortest: number | undefined;
    for (let bucket = upcoming.peek(); bucket !== undefined && bucket <= Date.now(); bucket = upcoming.peek()) {
      upcoming.pop();
      shortest = Math.min(shortest ?? Infinity, retries.get(bucket) ?? FIRST_RETRY_MS);
      retries.delete(bucket);
    }
    return shortest;
  }

  /** Whether the job that is due next should have been taken by now. */
  async function isOverdue(): Promise<boolean> {
    const [head, score] = await redis.zrange(delayedKey, 0, 0, 'WITHSCORES');
    return head !== undefined && dueAtOfScore(Number(score)) < Date.now() + offsetMs();
  }

  return {
    note: (dueAt) => {
      lookAt(dueAt + AFTER_DUE_MS, FIRST_RETRY_MS);
    },
    close: async () => {
      isClosed = true;
      clearTimeout(timer);
      await Promise.all(looks);
    },
  };
}
