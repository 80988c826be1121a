import { mock } from 'node:test';
import type { Redis } from 'ioredis';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { onClock } from '../../test/support/redis-clock.ts';
import { createFlexible, rollingInMemory, type Rivals } from '../rivals.ts';
import { newRecipient, PACED, pump } from './cases.ts';

/** How many jobs are blocked on one recipient: 10/1m and a gap of 2 s. */
export const BLOCKED_JOBS = [50, 200, 1_000] as const;

/** Asks until all jobs have passed, by the number of jobs. */
export type Asks = Readonly<Record<(typeof BLOCKED_JOBS)[number], number>>;

/** pushpacer's limiter, on Redis, with a clock that the bench sets. */
export async function ourAsks(redis: Redis): Promise<Asks> {
  let clockMs = Date.now();
  const limiter = createRedisLimiter({ redis: onClock(redis, () => clockMs), policy: PACED });
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
    const tenAMinute = { points: 10, duration: 60, keyPrefix: 'minute' };
    const limiter = createFlexible(rivals, 'memory', tenAMinute, { points: 1, duration: 2, keyPrefix: 'gap' });
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

/** Far above what any of the compared limiters needs for 1,000 jobs. */
const MAX_ASKS = 2_000_000;

/** One job's ask at an instant: its wait, or undefined if it is admitted. */
type AskOnce = (job: number, nowMs: number) => Promise<number | undefined>;

/**
 * All jobs ask at once, and each comes back exactly after its wait, until all are admitted. Jobs that are due at the same instant
 * ask in their order. The clock is simulated: it does not move during an ask.
 */
async function asksUntilAllPassed(jobs: number, startMs: number, ask: AskOnce): Promise<number> {
  const due = new Map<number, number[]>([[startMs, Array.from({ length: jobs }, (_, job) => job)]]);
  let asks = 0;
  while (due.size > 0) {
    const nowMs = Math.min(...due.keys());
    const batch = due.get(nowMs) ?? [];
    due.delete(nowMs);
    for (const job of batch.toSorted((a, b) => a - b)) {
      asks += 1;
      const waitMs = await ask(job, nowMs);
      if (waitMs === undefined) continue;
      if (!(waitMs > 0) || asks >= MAX_ASKS)
        throw new Error(`after ${asks} asks: expected a wait above 0 ms and fewer asks, found a wait of ${waitMs} ms`);
      const at = nowMs + waitMs;
      due.set(at, [...(due.get(at) ?? []), job]);
    }
  }
  return asks;
}

/** The cost of moving all reservations of one recipient. */
export interface Moving {
  readonly waiting: number;
  /** The longest script, and all of them together, by SLOWLOG. */
  readonly longestMs: number;
  readonly togetherMs: number;
  /** From the call to the answer. */
  readonly seconds: number;
}

/** Blocks a recipient with `waiting` reservations, and ends the block: each of them moves twice. */
export async function measureMoving(redis: Redis, waiting: number): Promise<Moving> {
  const limiter = createRedisLimiter({ redis, policy: PACED });
  const recipientId = newRecipient();
  await pump(waiting + 1, async (index) => {
    await limiter.admit({ recipientId, id: `msg-${recipientId}-${index}` });
  });
  await redis.config('SET', 'slowlog-log-slower-than', '0');
  await redis.config('SET', 'slowlog-max-len', '100000');
  await redis.slowlog('RESET');
  const start = performance.now();
  await limiter.block(recipientId, { until: Date.now() + 86_400_000, reason: 'bench' });
  await limiter.unblock(recipientId);
  const seconds = (performance.now() - start) / 1_000;
  const log = (await redis.slowlog('GET', 100_000)) as [id: number, at: number, micros: number, command: string[]][];
  await redis.config('SET', 'slowlog-log-slower-than', '10000');
  const micros = log.filter(([, , , [command = '']]) => /^evalsha?$/i.test(command)).map(([, , each]) => each);
  if (micros.length === 0) throw new Error('expected scripts that move those that wait, found none');
  const together = micros.reduce((sum, each) => sum + each, 0);
  return { waiting, longestMs: Math.max(...micros) / 1_000, togetherMs: together / 1_000, seconds };
}
