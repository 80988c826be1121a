import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import type { Rule } from '../../src/domain/limits.ts';
import { checkTerms, type Over, type Quota, type QuotaAnswer } from '../../src/quota/quota.ts';
import { createRedisQuota } from '../../src/quota/redis-quota.ts';
import { seededRandom } from '../../sandbox/loopback/timing.ts';
import { AHEAD_MS, expectKept } from '../limiter/support.ts';
import { onClock } from '../support/redis-clock.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

const SECOND = 1_000;
const MINUTE = 60_000;

const ruleSets = fc.array(
  fc.record({ max: fc.integer({ min: 1, max: 30 }), perMs: fc.integer({ min: 1, max: 5_000 }) }),
  { minLength: 1, maxLength: 3 },
);

const startMs = () => Date.now() + AHEAD_MS;

/** The promise of docs/quota.md. The clock stands still until a test moves it. */
describe('the promise of a quota', () => {
  let now: number;
  beforeEach(() => {
    now = startMs();
    vi.spyOn(performance, 'now').mockImplementation(() => now);
  });
  afterEach(() => vi.restoreAllMocks());
  const open = (rules: readonly Rule[], leaseMs = 500): [Quota, Quota, Quota] => {
    const options = { rules, leaseMs, name: 'fcm', prefix: testPrefix(), redis: onClock(connectRedis(), () => now) };
    return [createRedisQuota(options), createRedisQuota(options), createRedisQuota(options)];
  };
  const takeMany = (quota: Quota, count: number) => Promise.all(Array.from({ length: count }, () => quota.take()));

  it('gives as many tokens as the rule allows, and then answers when there is room, and which rule makes the wait', async () => {
    const [quota] = open([{ max: 10, perMs: MINUTE }]);
    const answers = await takeMany(quota, 12);
    expect(kinds(answers)).toEqual({ taken: 10, over: 2 });
    for (const { at, waitMs, rule } of overOf(answers)) {
      expect({ at, rule }).toEqual({ at: now + waitMs, rule: '10/1m' });
      expect(waitMs).toBeGreaterThan(MINUTE);
      expect(waitMs).toBeLessThan(MINUTE + 500 + 3 * 600 + 500);
    }
  });

  it('keeps every rule at once: the one that makes the longest wait is answered', async () => {
    const [quota] = open([
      { max: 4, perMs: SECOND },
      { max: 6, perMs: MINUTE },
    ]);
    const first = await takeMany(quota, 9);
    expect(kinds(first)).toEqual({ taken: 4, over: 5 });
    expect(overOf(first).map(({ rule }) => rule)).toEqual(['4/1s', '4/1s', '6/1m', '6/1m', '6/1m']);
  });

  it('gives who comes back at its instant, or late by up to `leaseMs`, the token set aside for it', async () => {
    for (const lateMs of [0, 1, 250, 500]) {
      const [quota, other] = open([{ max: 5, perMs: MINUTE }]);
      const sentAway = overOf(await takeMany(quota, 10));
      for (const { at } of sentAway) {
        now = at + lateMs;
        expect(await other.take()).toMatchObject({ kind: 'over' }); // a newcomer does not get it
        expect(await other.take(at)).toMatchObject({ kind: 'taken' });
      }
    }
  });

  it('answers one that comes back before there is room with the same instant again', async () => {
    const [quota] = open([{ max: 1, perMs: MINUTE }]);
    await quota.take();
    const [over] = overOf([await quota.take()]);
    const at = over?.at ?? NaN;
    now = at - 10_000;
    expect(await quota.take(at)).toMatchObject({ kind: 'over', at, waitMs: 10_000 });
    now = at;
    expect(await quota.take(at)).toMatchObject({ kind: 'taken' });
    expect(await quota.take(at)).toMatchObject({ kind: 'over' }); // it was set aside once
  });

  it('hands out instants in the order of asking, each with room for one, and spreads them', async () => {
    const [quota] = open([{ max: 50, perMs: SECOND }], 50);
    const instants = overOf(await takeMany(quota, 150)).map(({ at }) => at - now);
    expect(instants).toHaveLength(100);
    expect(instants).toEqual(instants.toSorted((a, b) => a - b));
    for (const first of [0, 50]) {
      const bucket = instants.slice(first, first + 50); // room for 50 comes with one bucket of 10 ms
      expect(Number(bucket.at(-1)) - Number(bucket[0])).toBe(9);
      expect(new Set(bucket).size).toBe(10);
    }
  });

  it('keeps a full window between the last use of one token and the first of the next, wherever in a bucket they fall', async () => {
    const [leaseMs, bucketMs] = [50, 10];
    for (let offset = 0; offset < bucketMs; offset += 1) {
      now = startMs() - (startMs() % bucketMs) + offset;
      const [quota, other] = open([{ max: 2, perMs: SECOND }], leaseMs);
      const [first] = await takeMany(quota, 2);
      const lastUse = (first?.kind === 'taken' ? first.useBy : NaN) - 1;
      expect(lastUse).toBe(now + leaseMs - 1);
      now = lastUse + SECOND - 1;
      const answer = await other.take();
      expect(answer).toMatchObject({ kind: 'over' });
      const at = answer.kind === 'over' ? answer.at : NaN;
      now = at - (at % bucketMs);
      expect(now).toBeGreaterThanOrEqual(lastUse + SECOND);
      expect(now).toBeLessThan(lastUse + SECOND + leaseMs + 3 * bucketMs);
      expect(await other.take(at)).toMatchObject({ kind: 'taken' });
    }
  });

  it('leaves newcomers what is over once those who were sent away have come back', async () => {
    const [quota] = open([{ max: 5, perMs: SECOND }], 50);
    const instants = overOf(await takeMany(quota, 8)).map(({ at }) => at);
    for (const at of instants) {
      now = at;
      expect(await quota.take(at)).toMatchObject({ kind: 'taken' });
    }
    expect(kinds(await takeMany(quota, 3))).toEqual({ taken: 2, over: 1 });
  });

  it('gives what a no-show leaves to newcomers, a second after its instant', async () => {
    const [quota] = open([{ max: 3, perMs: SECOND }], 50);
    const instants = overOf(await takeMany(quota, 6)).map(({ at }) => at);
    now = Math.max(...instants) + 500;
    expect(await quota.take()).toMatchObject({ kind: 'over' });
    now = Math.max(...instants) + 3 * SECOND;
    expect(kinds(await takeMany(quota, 4))).toEqual({ taken: 3, over: 1 });
  });

  it('answers how far each rule is used up', async () => {
    const [quota, other] = open([
      { max: 100, perMs: MINUTE },
      { max: 30, perMs: SECOND },
    ]);
    expect((await quota.used()).map(({ used }) => used)).toEqual([0, 0]);
    await takeMany(quota, 7);
    await takeMany(other, 5);
    expect(await other.used()).toEqual([
      { rule: '30/1s', max: 30, used: 12 },
      { rule: '100/1m', max: 100, used: 12 },
    ]);
    now += 3 * SECOND;
    expect((await other.used()).map(({ used }) => used)).toEqual([0, 12]);
  });

  it('refuses rules that are none, all faults at once, and takes those of a whole project', async () => {
    const wrong = [
      { max: 0, perMs: 1.5 },
      { max: 1_000_000_001, perMs: 1 },
    ];
    expect(() => open(wrong)).toThrow(InputError);
    expect(() => open(wrong)).toThrow(
      /rules\[0\]\.max: .*found 0\n.*rules\[0\]\.perMs: .*\n.*rules\[1\]\.max: .*1000000001/,
    );
    expect(() => open([])).toThrow('rules: expected 1 to 16 rules, found 0');
    expect(() => open([{ max: 1, perMs: 100 }], 101)).toThrow(/leaseMs: expected an integer from 1 to 100 .*found 101/);
    const [quota] = open([{ max: 600_000, perMs: MINUTE }]);
    expect(await quota.take()).toMatchObject({ kind: 'taken' });
    await expect(quota.take(NaN)).rejects.toThrow('promisedAt: expected');
  });

  it('sends each of 5,000 jobs away once at the most, when all come back within `leaseMs` after their instants', async () => {
    const rules = [
      { max: 200, perMs: SECOND },
      { max: 1_500, perMs: 10 * SECOND },
    ];
    const result = await simulate({ rules, jobs: 5_000, lateMs: () => Math.random() * 50 });
    expectKept({ rules, minGapMs: 0 }, result.taken);
    expect(result.taken).toHaveLength(5_000);
    expect(result.mostAsks).toBeLessThanOrEqual(2);
    // A window, `leaseMs` that it counts longer, the lateness that is planned for, and buckets: 111 hundredths of it.
    expect(result.makespanMs).toBeLessThan((5_000 / 1_500) * 10 * SECOND * 1.11);
  });

  it('sends nobody away twice who comes back in time, whatever the rules and the arrivals', async () => {
    const runs = fc.asyncProperty(ruleSets, fc.nat(300), fc.integer(), async (rules, everyMs, seed) => {
      const { leaseMs } = checkTerms({ name: 'as-by-default', rules });
      const random = seededRandom(seed);
      const result = await simulate({
        rules,
        jobs: 80,
        lateMs: () => Math.floor(random() * (leaseMs + 1)),
        arrivalMs: () => (random() < 0.5 ? 0 : Math.floor(random() * everyMs)),
      });
      expectKept({ rules, minGapMs: 0 }, result.taken);
      expect(result.mostAsks).toBeLessThanOrEqual(2);
    });
    await fc.assert(runs, { numRuns: 30 });
  });

  it('pays for each that comes back later than `leaseMs` with one ask more, its own or another’s', async () => {
    const rules = [
      { max: 50, perMs: SECOND },
      { max: 300, perMs: 10 * SECOND },
    ];
    let late = 0;
    const lateMs = () => {
      if (Math.random() < 0.9) return Math.random() * 50;
      late += 1;
      return 100 + Math.random() * 5_000;
    };
    const result = await simulate({ rules, jobs: 1_500, lateMs });
    expectKept({ rules, minGapMs: 0 }, result.taken);
    expect(late).toBeGreaterThan(50);
    expect(result.asks).toBeLessThanOrEqual(2 * 1_500 + late);
  });

  it('never gives more in any rolling window, and loses nobody, whatever comes late, early or not at all', async () => {
    const steps = fc.oneof(
      fc.record({ do: fc.constant('take' as const), client: fc.nat(2), count: fc.integer({ min: 1, max: 12 }) }),
      fc.record({ do: fc.constant('return' as const), client: fc.nat(2), byMs: fc.integer({ min: -300, max: 300 }) }),
      fc.record({ do: fc.constant('pass' as const), ms: fc.oneof(fc.nat(30), fc.nat(3_000)) }),
      fc.record({ do: fc.constant('edge' as const), byMs: fc.integer({ min: -1, max: 0 }) }),
      fc.record({ do: fc.constant('forget' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(ruleSets, fc.array(steps, { minLength: 5, maxLength: 60 }), async (rules, script) => {
        now = startMs();
        const { leaseMs, tiers } = checkTerms({ name: 'as-by-default', rules });
        const bucketMs = tiers[0]?.widthMs ?? 1;
        const clients = open(rules, leaseMs);
        const taken: number[] = [];
        const promised: number[] = [];
        // A token may be used at once, or at the last moment: no window may be too full with either.
        const note = (answer: QuotaAnswer, index: number) => {
          if (answer.kind === 'over') promised.push(answer.at);
          else taken.push(index % 2 === 0 ? now : Math.ceil(answer.useBy) - 1);
        };
        for (const step of script) {
          if (step.do === 'pass') now += step.ms;
          if (step.do === 'edge') now += bucketMs - (now % bucketMs) + step.byMs;
          if (step.do === 'forget') promised.shift();
          if (step.do === 'take') (await takeMany(clients[step.client] ?? clients[0], step.count)).forEach(note);
          if (step.do === 'return') {
            const at = promised.shift();
            if (at === undefined) continue;
            now = Math.max(now, at + step.byMs);
            note(await (clients[step.client] ?? clients[0]).take(at), step.byMs);
          }
        }
        expectKept({ rules, minGapMs: 0 }, taken);
        await Promise.all(clients.map((client) => client.close()));
      }),
      { numRuns: 50 },
    );
  });

  /** Jobs that ask, and come back at their promised instants, until each has its token; in the order of their instants. */
  async function simulate({ rules, jobs, lateMs, arrivalMs = () => 0 }: Simulation): Promise<Played> {
    const clients = open(rules, checkTerms({ name: 'as-by-default', rules }).leaseMs);
    const start = now;
    const due: Job[] = [];
    for (let job = 0, at = start; job < jobs; job += 1, at += arrivalMs()) due.push({ at, asks: 0 });
    const taken: number[] = [];
    let asks = 0;
    let mostAsks = 0;
    while (due.length > 0) {
      due.sort((a, b) => a.at - b.at);
      now = Math.max(now, Math.ceil(due[0]?.at ?? 0));
      const firstAhead = due.findIndex(({ at }) => at > now);
      const batch = due.splice(0, firstAhead === -1 ? due.length : firstAhead);
      await Promise.all(
        batch.map(async (job, index) => {
          const answer = await (clients[index % clients.length] ?? clients[0]).take(job.promisedAt);
          asks += 1;
          mostAsks = Math.max(mostAsks, job.asks + 1);
          if (answer.kind === 'taken') taken.push(now);
          else due.push({ at: answer.at + lateMs(), promisedAt: answer.at, asks: job.asks + 1 });
        }),
      );
    }
    return { taken, asks, mostAsks, makespanMs: now - start };
  }
});

function kinds(answers: readonly QuotaAnswer[]): { taken: number; over: number } {
  const over = overOf(answers).length;
  return { taken: answers.length - over, over };
}

function overOf(answers: readonly QuotaAnswer[]): Over[] {
  return answers.filter((answer) => answer.kind === 'over');
}

interface Simulation {
  readonly rules: readonly Rule[];
  readonly jobs: number;
  /** How late a job comes back. */
  readonly lateMs: () => number;
  /** Between one job's arrival and the next; all at once where it is left out. */
  readonly arrivalMs?: () => number;
}

interface Played {
  /** When tokens were taken. */
  readonly taken: readonly number[];
  /** Asks of all jobs, and of the one that asked most. */
  readonly asks: number;
  readonly mostAsks: number;
  readonly makespanMs: number;
}

interface Job {
  readonly at: number;
  readonly promisedAt?: number;
  readonly asks: number;
}
