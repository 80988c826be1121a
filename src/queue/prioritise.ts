import type { Job, Queue } from 'bullmq';
import { isObject } from '../domain/json.ts';
import { within } from '../domain/time.ts';
import { scoresOfPriority } from './bullmq-internals.ts';
import { PRIORITY } from './names.ts';

// Workers change the priority of waiting jobs in two cases: createPrioritiser and createNewcomerShare say which. A worker
// notices the case by a job that it takes, so queues without such jobs cost no command.

/** Looks at the jobs that wait, and changes the priority of those that one of the two cases concerns. */
export interface Prioritiser {
  /** To be called when a worker took a job that shows the case. Does nothing while another look runs, or shortly after it. */
  look(): void;
  /** Stops; resolves when none of its commands is under way. */
  close(): Promise<void>;
}

/** The part of ioredis that finds the jobs, and by which workers avoid doing the same work twice. */
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

export interface NewcomerShareOptions extends PrioritiserOptions {
  /** Redis's time, epoch milliseconds: on this clock jobs note when they are due. Default: this machine's time. */
  readonly now?: () => number;
}

/** This many of the oldest jobs are left as they are: workers are about to take them. */
const LEFT = 50;
/** This many commands are under way at once, so that commands of workers get through in between. */
const AT_ONCE = 100;
/** The shortest time between two looks for jobs without a priority, since single ones may come all the time. */
const EVERY_MS = 100;
/** If the worker that changes priorities is killed, another one begins after this. */
const LOCK_MS = 2_000;
const CLOSE_MS = 1_000;

/**
 * BullMQ takes jobs without a priority before all others, even before due ones. A producer that adds thousands of them at once
 * would delay every alert that is due (6,000 for 1,500 recipients: by 6 s on two busy cores). So a worker that takes such a job
 * gives the normal priority to the jobs without a priority that still wait.
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

/** If a job is taken this long after its due time, more jobs are due than the workers can take in time. */
const OVERDUE_MS = 250;
/** In an overloaded queue, one of this many passes is for a new job. */
const ONE_OF = 5;
/** For this long after a worker has looked for new jobs to raise, no worker looks again. */
const SHARE_EVERY_MS = 200;
/** One look raises at most this many new jobs. */
const MOST_RAISED = 200;

/** Lets workers take some new jobs while due jobs are overdue. */
export interface NewcomerShare {
  /** To be called with each job that was taken. */
  taken(job: Pick<Job, 'progress'>): void;
  /** As `close` of Prioritiser. */
  close(): Promise<void>;
}

/**
 * Due jobs go before new jobs. If more jobs are due than the workers can do, a new job would wait until no job is overdue. So
 * for every four jobs that are taken too late, a worker gives one new job, the oldest, the priority `high`. The new jobs of
 * each recipient keep their order. The limiter is told that they may not overtake older notifications of their recipient
 * (`behindOverdue`).
 */
export function createNewcomerShare({ queue, redis, now = Date.now }: NewcomerShareOptions): NewcomerShare {
  const lockKey = queue.toKey('lock:raising');
  const [newcomers] = scoresOfPriority(PRIORITY.due + 1, PRIORITY.due + 1);
  /** How many jobs this worker took too late since it last raised new jobs. Only this worker counts these jobs. */
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
      if (typeof dueAt !== 'number' || now() - dueAt < OVERDUE_MS) return;
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

/** Each `look` runs `work`, but never twice at once, and not within `everyMs` after the last run has ended. */
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
