import type { Queue } from 'bullmq';
import { within } from '../domain/time.ts';
import { PRIORITY } from './names.ts';

/**
 * BullMQ takes jobs without a priority before all others, even before due ones. A producer that adds thousands of them at once
 * would delay every alert that is due (6,000 for 1,500 recipients: by 6 s on two busy cores). So a worker that takes such a job
 * gives the normal priority to those that still wait, with BullMQ's own `changePriority`.
 */
export interface Prioritiser {
  /** To be called when a job without a priority was taken: looks for others. */
  look(): void;
  /** Stops; resolves when none of its commands is under way. */
  close(): Promise<void>;
}

/** The part of ioredis with which several workers avoid doing the same work. */
interface PrioritiserRedis {
  set(key: string, value: string, unit: 'PX', ms: number, condition: 'NX'): Promise<'OK' | null>;
  pexpire(key: string, ms: number): Promise<number>;
  del(key: string): Promise<number>;
}

export interface PrioritiserOptions {
  readonly queue: Queue;
  readonly redis: PrioritiserRedis;
}

/** The oldest jobs are left as they are: workers are about to take them. */
const LEFT = 50;
/** This many commands are under way at once, so that commands of workers get through in between. */
const AT_ONCE = 100;
/** The shortest time between two looks, for the case that single jobs without a priority come all the time. */
const EVERY_MS = 100;
/** If the worker that prioritises is killed, another one begins after this. */
const LOCK_MS = 2_000;
const CLOSE_MS = 1_000;

export function createPrioritiser({ queue, redis }: PrioritiserOptions): Prioritiser {
  const lockKey = queue.toKey('prioritising');
  let running: Promise<void> | undefined;
  let nextAt = -Infinity;
  let isClosed = false;

  /** The next jobs without a priority, the oldest first. */
  function next(): Promise<string[]> {
    return queue.getRanges(['wait'], LEFT, LEFT + AT_ONCE - 1, true);
  }

  async function prioritise(): Promise<void> {
    let ids = await next();
    if (ids.length === 0 || (await redis.set(lockKey, '1', 'PX', LOCK_MS, 'NX')) === null) return;
    try {
      while (ids.length > 0 && !isClosed) {
        const [, ...done] = await Promise.all([redis.pexpire(lockKey, LOCK_MS), ...ids.map(toNormal)]);
        ids = done.includes(true) ? await next() : [];
      }
    } finally {
      await redis.del(lockKey);
    }
  }

  /** False for a job that was removed meanwhile, but whose id is still in the list. */
  function toNormal(jobId: string): Promise<boolean> {
    const changed = queue.getBackend().changePriority(jobId, PRIORITY.normal);
    return changed.then(
      () => true,
      () => false,
    );
  }

  return {
    look() {
      if (running !== undefined || isClosed || performance.now() < nextAt) return;
      const ended = (): void => {
        running = undefined;
        nextAt = performance.now() + EVERY_MS;
      };
      running = prioritise().then(ended, ended); // an error is reported by BullMQ's own connections
    },
    async close() {
      isClosed = true;
      if (running !== undefined) await within(running, CLOSE_MS);
    },
  };
}
