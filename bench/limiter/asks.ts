import { mock } from 'node:test';
import type { Redis } from 'ioredis';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import type { Rivals } from '../install.ts';
import { asksUntilAllPassed } from './blocked.ts';
import { newRecipient } from './case.ts';
import { flexibleInMemory } from './flexible.ts';
import { PACED } from './ours.ts';
import { rollingInMemory } from './rolling.ts';

/** How many jobs are blocked on one recipient: 10/1m and a gap of 2 s. */
export const BLOCKED_JOBS = [50, 200, 1_000] as const;

/** Asks until all jobs have passed, by the number of jobs. */
export type Asks = Readonly<Record<(typeof BLOCKED_JOBS)[number], number>>;

/** pushpacer's limiter, on Redis, with a clock that the bench sets. */
export async function ourAsks(redis: Redis): Promise<Asks> {
  let clockMs = Date.now();
  const limiter = createRedisLimiter({ redis, policy: PACED, now: () => clockMs });
  return forEachCount((jobs) => {
    const recipientId = newRecipient();
    return asksUntilAllPassed(jobs, Date.now(), async (job, nowMs) => {
      clockMs = nowMs;
      const answer = await limiter.admit({ recipientId, id: `msg-${job}` });
      return answer.kind === 'admitted' ? undefined : answer.waitMs;
    });
  });
}

/**
 * rolling-rate-limiter's own limiter in memory, which decides with the same code as the one on Redis does; the clock that
 * it reads is replaced.
 */
export async function rollingAsks(rivals: Rivals): Promise<Asks> {
  const options = { interval: 60_000, maxInInterval: 10, minDifference: 2_000 };
  const { limiter, clock } = rollingInMemory(rivals, options);
  const realNow = clock.now;
  try {
    return await forEachCount(async (jobs) => {
      const id = newRecipient();
      const asks = await asksUntilAllPassed(jobs, 0, async (_job, nowMs) => {
        clock.now = () => nowMs * 1_000;
        const { blocked, millisecondsUntilAllowed } = await limiter.limitWithInfo(id);
        return blocked ? millisecondsUntilAllowed : undefined;
      });
      await limiter.clear(id);
      return asks;
    });
  } finally {
    clock.now = realNow;
  }
}

/** rate-limiter-flexible's own limiters in memory, a union of two, on a mocked Date and mocked timers. */
export async function flexibleAsks(rivals: Rivals): Promise<Asks> {
  mock.timers.enable({ apis: ['Date', 'setTimeout'], now: 0 });
  try {
    const limiter = flexibleInMemory(rivals);
    return await forEachCount((jobs) => {
      const id = newRecipient();
      return asksUntilAllPassed(jobs, Date.now(), async (_job, nowMs) => {
        if (nowMs > Date.now()) mock.timers.tick(nowMs - Date.now());
        return limiter.consume(id).then(() => undefined, longestWaitMs);
      });
    });
  } finally {
    mock.timers.reset();
  }
}

/** A union rejects with what each limiter that refused says. */
function longestWaitMs(refusals: unknown): number {
  const waits = Object.values(refusals as Record<string, { msBeforeNext: number }>);
  return Math.max(...waits.map(({ msBeforeNext }) => msBeforeNext));
}

async function forEachCount(count: (jobs: number) => Promise<number>): Promise<Asks> {
  const [fifty, twoHundred, thousand] = BLOCKED_JOBS;
  return { [fifty]: await count(fifty), [twoHundred]: await count(twoHundred), [thousand]: await count(thousand) };
}
