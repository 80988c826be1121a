import TinyQueue from 'tinyqueue';
import { dueAtOfScore } from './bullmq-internals.ts';

/** The part of ioredis that the waker uses. */
export interface DelayedSet {
  /** `ZRANGE key 0 0 WITHSCORES` on BullMQ's `delayed`: the job that is due next, `[]` if there is none. */
  zrange(key: string, start: number, stop: number, withScores: 'WITHSCORES'): Promise<string[]>;
}

export interface WakerOptions {
  /** A connection that is not used for blocking commands. */
  readonly redis: DelayedSet;
  /** `queue.toKey('delayed')`. */
  readonly delayedKey: string;
  /** Redis's time, epoch milliseconds: due times in Redis are on Redis's clock. Default: this machine's time. */
  readonly now?: () => number;
}

export interface Waker {
  /** To be called when this worker requeued a job until `dueAt`, an instant of `performance.now()`. */
  note(dueAt: number): void;
  /** Stops; resolves when none of the waker's commands is under way. */
  close(): Promise<void>;
}

/** The waker sends its command this long after the due instant: earlier, no blocking command of a worker is overdue. */
const AFTER_DUE_MS = 1;
/** Jobs due within the same few milliseconds are woken by one command. */
const BUCKET_MS = 2;
/**
 * If the job is still not taken, look again after this: the first look came too early, or all workers are busy. The wait
 * doubles.
 */
const FIRST_RETRY_MS = 2;
const LAST_RETRY_MS = 64;
/** Jobs that are due later than this are not noted: this worker will most likely be restarted before. */
const MAX_AHEAD_MS = 86_400_000;

/**
 * Wakes workers when a delayed job is due. A worker waits in a blocking command, which Redis ends only in the next turn of its
 * event loop: without other traffic every 100 ms (`hz 10`). Any command starts a turn. So the worker that requeued a job sends
 * a command just after the job is due: it reads the head of the delayed set, which also shows whether the job was taken. Other
 * workers send none: with two dozen workers that would cost too much CPU. So jobs of a killed worker wait for Redis's own turn.
 *
 * One timer serves all jobs, since a timer for each of a million jobs would take 450 MB.
 */
export function startWaker({ redis, delayedKey, now = Date.now }: WakerOptions): Waker {
  /** The instants at which to look, rounded up to buckets; one may be there several times, for several jobs. */
  const upcoming = new TinyQueue<number>();
  /** The next wait of the buckets that are a look after the first one. */
  const retries = new Map<number, number>();
  const looks = new Set<Promise<void>>();
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;

  function lookAt(at: number, retryMs: number): void {
    const bucket = Math.ceil(at / BUCKET_MS) * BUCKET_MS;
    if (isClosed || at - performance.now() > MAX_AHEAD_MS) return;
    if (retryMs > FIRST_RETRY_MS) retries.set(bucket, retryMs);
    else retries.delete(bucket);
    upcoming.push(bucket);
    if (upcoming.peek() === bucket) setTimer();
  }

  function setTimer(): void {
    clearTimeout(timer);
    const next = upcoming.peek();
    timer = next === undefined ? undefined : setTimeout(fire, Math.max(0, next - performance.now()));
  }

  function fire(): void {
    const retryMs = takeDue();
    setTimer();
    if (retryMs === undefined) return;
    // An error is ignored: BullMQ's own connections report it, and look for due jobs themselves when they are connected again.
    const look = isOverdue().then(
      (still) => {
        if (still && retryMs <= LAST_RETRY_MS) lookAt(performance.now() + retryMs, 2 * retryMs);
      },
      () => undefined,
    );
    looks.add(look);
    void look.finally(() => looks.delete(look));
  }

  /** Removes every bucket that is due, and answers the shortest of their retry waits, so that one look serves all of them. */
  function takeDue(): number | undefined {
    let shortest: number | undefined;
    for (let bucket = upcoming.peek(); bucket !== undefined && bucket <= performance.now(); bucket = upcoming.peek()) {
      upcoming.pop();
      shortest = Math.min(shortest ?? Infinity, retries.get(bucket) ?? FIRST_RETRY_MS);
      retries.delete(bucket);
    }
    return shortest;
  }

  /** Whether the job that is due next should have been taken by now. */
  async function isOverdue(): Promise<boolean> {
    const [head, score] = await redis.zrange(delayedKey, 0, 0, 'WITHSCORES');
    return head !== undefined && dueAtOfScore(Number(score)) < now();
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
