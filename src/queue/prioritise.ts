import type { Job, Queue } from 'bullmq';
import { isObject } from '../domain/json.ts';
import { within } from '../domain/time.ts';
import { scoresOfPriority } from './bullmq-internals.ts';
import { PRIORITY } from './names.ts';

// Workers change the priority of jobs that wait, with BullMQ's own `changePriority`, in two cases: createPrioritiser and
// createNewcomerShare say which. A job that a worker takes shows the case, so other queues cost no command.

/** Looks at the jobs that wait, and changes the priority of some. */
export interface Prioritiser {
  /** To be called when a job was taken that is a sign. Does nothing while a look is under way, and shortly after one. */
  look(): void;
  /** Stops; resolves when none of its commands is under way. */
  close(): Promise<void>;
}

/** The part of ioredis that finds the jobs, and with which several workers avoid doing the same work. */
interface PrioritiserRedis {
  set(key: string, value: string, unit: 'PX', ms: number, condition: 'NX'): Promise<'OK' | null>;
  pexpire(key: string, ms: number): Promise<number>;
  del(key: string): Promise<number>;
  zrangebyscore(key: string, min: number, max: '+inf', limit: 'LIMIT', from: number, most: number): Promise<string[]>;
}

export interface PrioritiserOptions {
  readonly queue: Queue;
  readonly redis: PrioritiserRedis;
}

/** The oldest jobs are left as they are: workers are about to take them. */
const LEFT = 50;
/** This many commands are under way at once, so that commands of workers get through in between. */
const AT_ONCE = 100;
/** The shortest time between two looks for jobs without a priority, for the case that single ones come all the time. */
const EVERY_MS = 100;
/** If the worker that changes priorities is killed, another one begins after this. */
const LOCK_MS = 2_000;
const CLOSE_MS = 1_000;

/**
 * BullMQ takes jobs without a priority before all others, even before due ones. A producer that adds thousands of them at once
 * would delay every alert that is due (6,000 for 1,500 recipients: by 6 s on two busy cores). So a worker that takes such a job
 * gives the normal priority to those that still wait.
 */
export function createPrioritiser({ queue, redis }: PrioritiserOptions): Prioritiser {
  const lockKey = queue.toKey('lock:prioritising');

  /** The next jobs without a priority, the oldest first. */
  function next(): Promise<string[]> {
    return queue.getRanges(['wait'], LEFT, LEFT + AT_ONCE - 1, true);
  }

  return lookingEvery(EVERY_MS, async (isClosed) => {
    let ids = await next();
    if (ids.length === 0 || (await redis.set(lockKey, '1', 'PX', LOCK_MS, 'NX')) === null) return;
    try {
      while (ids.length > 0 && !isClosed()) {
        const [, ...done] = await Promise.all([
          redis.pexpire(lockKey, LOCK_MS),
          ...change(queue, ids, PRIORITY.normal),
        ]);
        ids = done.includes(true) ? await next() : [];
      }
    } finally {
      await redis.del(lockKey);
    }
  });
}

/** A job that is taken so long after it was due is a sign that workers cannot take what is due in time. */
const OVERDUE_MS = 250;
/** Newcomers get one of so many passes of an overloaded queue. */
const ONE_OF = 5;
/** The time between two looks for newcomers, of all workers together. */
const SHARE_EVERY_MS = 200;
/** The most newcomers that one look finds. */
const MOST_RAISED = 200;

/** Gives newcomers a share of a queue in which what is due is overdue. */
export interface NewcomerShare {
  /** To be called with each job that was taken. */
  taken(job: Pick<Job, 'progress'>): void;
  /** As that of Prioritiser. */
  close(): Promise<void>;
}

/**
 * What is due goes before what is new. If more is due than the workers can do, a new notification would wait until nothing is
 * overdue any more. So for every four jobs that workers take too late, one of them raises one new job, the oldest first, to the
 * priority of new jobs that are high. Each recipient's new jobs keep their order, and the limiter is told that they may not
 * overtake older ones of their recipient (`behindOverdue`).
 */
export function createNewcomerShare({ queue, redis }: PrioritiserOptions): NewcomerShare {
  const lockKey = queue.toKey('lock:raising');
  const [newcomers] = scoresOfPriority(PRIORITY.due + 1, PRIORITY.due + 1);
  /** Jobs that this worker has taken too late since it raised some. So over all workers, each counts once. */
  let overdue = 0;

  const raising = lookingEvery(SHARE_EVERY_MS, async () => {
    const from = performance.now();
    if ((await redis.set(lockKey, '1', 'PX', LOCK_MS, 'NX')) === null) return;
    const most = Math.min(MOST_RAISED, Math.ceil(overdue / (ONE_OF - 1)));
    overdue = 0;
    const ids = await redis.zrangebyscore(queue.toKey('prioritized'), newcomers, '+inf', 'LIMIT', 0, most);
    // If this process stood still, another worker may be raising the same jobs: the two could change their order.
    if (performance.now() - from < LOCK_MS / 2) await Promise.all(change(queue, ids, PRIORITY.high));
    await redis.pexpire(lockKey, SHARE_EVERY_MS);
  });

  return {
    taken({ progress }) {
      const dueAt = isObject(progress) ? progress['dueAt'] : undefined;
      if (typeof dueAt !== 'number' || Date.now() - dueAt < OVERDUE_MS) return;
      overdue += 1;
      raising.look();
    },
    close: () => raising.close(),
  };
}

/** Gives these jobs a priority, in their order. An answer is false for a job that was removed meanwhile. */
function change(queue: Queue, ids: readonly string[], priority: number): Promise<boolean>[] {
  return ids.map((id) =>
    queue
      .getBackend()
      .changePriority(id, priority)
      .then(
        () => true,
        () => false,
      ),
  );
}

/** Runs the work when it is wanted, but one at a time, and not within `everyMs` after it has ended. */
function lookingEvery(everyMs: number, work: (isClosed: () => boolean) => Promise<void>): Prioritiser {
  let running: Promise<void> | undefined;
  let nextAt = -Infinity;
  let isClosed = false;
  return {
    look() {
      if (running !== undefined || isClosed || performance.now() < nextAt) return;
      const ended = (): void => {
        running = undefined;
        nextAt = performance.now() + everyMs;
      };
      running = work(() => isClosed).then(ended, ended); // an error is reported by BullMQ's own connections
    },
    async close() {
      isClosed = true;
      if (running !== undefined) await within(running, CLOSE_MS);
    },
  };
}
