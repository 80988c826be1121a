import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import type { Policy, Rule } from '../../src/domain/limits.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { paceOf } from '../../src/limiter/pace.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { cases } from '../support/cases.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { expectKept } from './kept.ts';
import { Reference } from './reference.ts';
import { AHEAD_MS } from './stored.ts';

interface Arrival {
  /** How long after the one before it. */
  readonly afterMs: number;
  /** How early (from -1) or late (up to 1) it comes back at its slot, as a share of the tolerance. */
  readonly lateness: number;
}

const rules = (minLength: number): fc.Arbitrary<Rule[]> =>
  fc.array(fc.record({ max: fc.integer({ min: 1, max: 10 }), perMs: fc.integer({ min: 100, max: 60_000 }) }), {
    minLength,
    maxLength: 3,
  });
const jobs = (afterMs: fc.Arbitrary<number>): fc.Arbitrary<Arrival[]> =>
  fc.array(fc.record({ afterMs, lateness: fc.double({ min: -1, max: 1, noNaN: true }) }), {
    minLength: 2,
    maxLength: 80,
  });
const together = jobs(fc.constant(0));
const arrivals = jobs(fc.oneof(fc.constant(0), fc.nat(2_000)));
/** The numbers of those that come too late the first time, and by how many tolerances. No more than may do so one after the other. */
const late = fc.array(fc.tuple(fc.nat(20), fc.double({ min: 1, max: 12, noNaN: true })), {
  minLength: 1,
  maxLength: 3,
});
const gaps = fc.oneof(fc.integer({ min: 1, max: 400 }), fc.integer({ min: 1, max: 5_000 }));
const spaced: fc.Arbitrary<Policy> = fc.record({ rules: rules(0), minGapMs: gaps });
const bursty: fc.Arbitrary<Policy> = fc.record({ rules: rules(1), minGapMs: fc.constant(0) });

describe.each(['in memory', 'on Redis'])(
  'jobs that come back at their slots, give or take the tolerance, %s',
  (where) => {
    async function everyRun(policies: fc.Arbitrary<Policy>, jobs: fc.Arbitrary<Arrival[]>, check: (run: Run) => void) {
      const redis = where === 'on Redis' ? connectRedis() : undefined;
      const property = fc.asyncProperty(policies, jobs, async (policy, arrivals) => {
        const run = await play(policy, arrivals, redis);
        expect(run.asks).toBeLessThanOrEqual(2 * arrivals.length);
        expectKept(policy, run.admitted);
        check(run);
      });
      await fc.assert(property, { numRuns: cases(redis ? 100 : 400) });
    }

    it('ask twice at most, go in the order of asking, and the last is only as late as the latest', async () => {
      await everyRun(spaced, together, ({ admitted, lastIdeal, latestMs }) => {
        expect(admitted).toEqual(admitted.toSorted((a, b) => a - b));
        expect(Math.max(...admitted)).toBeLessThanOrEqual(lastIdeal + latestMs);
      });
    });

    it('do so when they keep arriving', async () => {
      await everyRun(spaced, arrivals, ({ admitted }) => {
        expect(admitted).toEqual(admitted.toSorted((a, b) => a - b));
      });
    });

    it('do so without a gap, unless they come early and swap places within the tolerance', async () => {
      await everyRun(bursty, together.map(neverEarly), ({ admitted, lastIdeal, latestMs }) => {
        expect(Math.max(...admitted)).toBeLessThanOrEqual(lastIdeal + latestMs);
      });
      await everyRun(bursty, arrivals, () => undefined);
    });

    it('are admitted then, however late others come', async () => {
      const redis = where === 'on Redis' ? connectRedis() : undefined;
      const policies = fc.oneof(spaced, bursty);
      const property = fc.asyncProperty(policies, fc.oneof(together, arrivals), late, async (policy, jobs, lates) => {
        const run = await play(policy, jobs, redis, new Map(lates));
        expect(run.sentAway).toEqual([]);
        expectKept(policy, run.admitted);
      });
      await fc.assert(property, { numRuns: cases(redis ? 150 : 600) });
    });
  },
);

function neverEarly(jobs: Arrival[]): Arrival[] {
  return jobs.map((job) => ({ ...job, lateness: Math.abs(job.lateness) }));
}

interface Run {
  readonly asks: number;
  /** Those that came back within the tolerance and were not admitted. */
  readonly sentAway: readonly number[];
  /** The instants of admission, in the order of first asking. */
  readonly admitted: readonly number[];
  /** When the last would have gone if each had come the moment it might go. */
  readonly lastIdeal: number;
  readonly latestMs: number;
}

async function play(
  policy: Policy,
  jobs: readonly Arrival[],
  redis: Redis | undefined,
  lates: ReadonlyMap<number, number> = new Map(),
): Promise<Run> {
  let now = Date.now() + AHEAD_MS;
  const options = { policy, now: () => now };
  const limiter = redis
    ? createRedisLimiter({ ...options, redis, prefix: testPrefix() })
    : createMemoryLimiter(options);
  const { holdMs } = paceOf(policy);

  let arrivesAt = now;
  const waiting = jobs.map(({ afterMs, lateness }, number) => {
    arrivesAt += afterMs;
    return { number, comesAt: arrivesAt, lateMs: Math.trunc(lateness * holdMs), isReturning: false, isTooLate: false };
  });
  const latestMs = Math.max(0, ...waiting.map(({ lateMs }) => lateMs));
  const lastIdeal = idealEnd(
    policy,
    waiting.map(({ comesAt }) => comesAt),
  );
  const admitted: number[] = [];
  const sentAway: number[] = [];
  let asks = 0;
  while (waiting.length > 0) {
    const job = waiting.reduce((first, other) => (other.comesAt < first.comesAt ? other : first));
    now = Math.max(now, job.comesAt);
    asks += 1;
    const answer = await limiter.admit({ recipientId: 'teacher-42', id: `job-${job.number}` });
    if (answer.kind === 'reserved') {
      const tooLateMs = job.isReturning ? 0 : Math.trunc((lates.get(job.number) ?? 0) * holdMs);
      if (job.isReturning && !job.isTooLate) sentAway.push(job.number);
      job.isTooLate = tooLateMs > holdMs;
      job.comesAt = answer.at + (job.isTooLate ? tooLateMs : job.lateMs);
      job.isReturning = true;
    }
    if (answer.kind !== 'admitted') continue;
    waiting.splice(waiting.indexOf(job), 1);
    admitted[job.number] = answer.at;
  }
  await limiter.reset('teacher-42');
  return { asks, sentAway, admitted, lastIdeal, latestMs };
}

/** When the last of them goes if each asks the moment it may go. */
function idealEnd(policy: Policy, arrivals: readonly number[]): number {
  const reference = new Reference({ policy, keepMs: paceOf(policy).longestMs });
  let end = 0;
  for (const [number, at] of arrivals.entries()) {
    end = reference.peek({ recipientId: 'teacher-42', id: `job-${number}` }, Math.max(end, at)).at ?? NaN;
    reference.sent = [...reference.sent, { id: `job-${number}`, at: end }];
  }
  return end;
}
