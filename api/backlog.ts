import type { Queue } from 'bullmq';
import { countWaiting } from '../src/queue/overview.ts';
import type { Problem } from './problems.ts';
import type { Token } from './tokens.ts';

/** Knows how many notifications wait, and whether more may be added. */
export interface Backlog {
  /** Undefined if this token may add more; otherwise the answer to its request. Rejects if Redis does not answer. */
  problemFor(token: Pick<Token, 'maxWaiting'>): Promise<Problem | undefined>;
  added(count: number): void;
}

/** The queue is counted at most this often. In between, each process adds what it enqueues itself. */
const COUNT_EVERY_MS = 1_000;
/** A producer is asked to wait this long; by then workers have usually sent some hundreds. */
const AGAIN_S = 10;

/** @param most the bound for tokens without a bound of their own */
export function createBacklog(queues: () => Promise<readonly Queue[]>, most: number): Backlog {
  let waiting: { readonly count: Promise<number>; readonly at: number } | undefined;
  let addedSince = 0;

  return {
    async problemFor({ maxWaiting = most }) {
      if (waiting === undefined || performance.now() - waiting.at > COUNT_EVERY_MS) {
        waiting = { count: queues().then(countWaiting), at: performance.now() };
        addedSince = 0;
        waiting.count.catch(() => (waiting = undefined)); // the next request asks again
      }
      const now = (await waiting.count) + addedSince;
      if (now < maxWaiting) return undefined;
      return {
        status: 429,
        code: 'queue-full',
        detail: `${now} notifications wait, and this token adds none beyond ${maxWaiting}; try again later`,
        headers: { 'retry-after': String(AGAIN_S) },
      };
    },
    added: (more) => void (addedSince += more),
  };
}
