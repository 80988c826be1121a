import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import type { Action, Change } from '../../src/limiter/foresee.ts';
import type { Follow, Moved } from '../../src/limiter/limiter.ts';
import { createForesight } from '../../src/limiter/redis/foresight.ts';
import type { RedisLimiterOptions } from '../../src/limiter/redis/redis-limiter.ts';
import { atMost, gapOf, POLICY } from '../contract/trial.ts';
import { createCanceller, createRedisLimiter, createWaitingLimiter } from '../support/limiters.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { readStored } from '../support/stored.ts';
import { onClock } from '../support/redis-clock.ts';
import { hoursOf, pattern, scenarios, type Scenario } from './model-steps.ts';
import { AHEAD_MS, recipientId } from './support.ts';

/** A limiter and the foresight beside it, on a clock that stands still until the test moves it. */
class Bench {
  now = Date.now() + AHEAD_MS;
  readonly start = this.now;
  readonly limiter;
  readonly foresight;
  readonly waiting;
  readonly canceller;
  readonly #prefix = testPrefix();
  readonly #redis: Redis;

  constructor(options: Omit<RedisLimiterOptions, 'redis' | 'prefix'>, redis = connectRedis()) {
    const own = { ...options, redis: onClock(redis, () => this.now), prefix: this.#prefix };
    this.#redis = redis;
    this.limiter = createRedisLimiter(own);
    this.foresight = createForesight(own);
    this.waiting = createWaitingLimiter(own);
    this.canceller = createCanceller(own);
  }

  async ask(id: string, category?: string): Promise<void> {
    await this.limiter.admit({ recipientId, id, ...(category !== undefined && { category }) });
  }

  /** What the action then did to the reservations, as the limiter reported it. */
  async run(action: Action, leadMs: number): Promise<Moved[]> {
    const all: Moved[] = [];
    const follow: Follow = { leadMs, onMoved: (moved) => void all.push(...moved) };
    switch (action.kind) {
      case 'block': {
        const { until, reason } = action;
        await this.limiter.block(recipientId, { until, reason }, follow);
        break;
      }
      case 'limit': {
        const { policy, until } = action;
        await this.limiter.limit(recipientId, policy, { ...follow, ...(until !== undefined && { until }) });
        break;
      }
      case 'quiet':
        await this.limiter.quiet(recipientId, action.hours, follow);
        break;
      default:
        await this.limiter[action.kind](recipientId, follow);
    }
    return all;
  }

  stored(): Promise<Record<string, unknown>> {
    return readStored(this.#redis, this.#prefix);
  }
}

const CATEGORIES = ['messages', 'alarms', undefined] as const;
const steps = fc.oneof(
  { weight: 6, arbitrary: fc.record({ ask: fc.constantFrom(...CATEGORIES) }) },
  { weight: 2, arbitrary: fc.record({ passMs: fc.oneof(fc.nat(500), fc.nat(10_000)) }) },
  { weight: 1, arbitrary: fc.record({ comeBack: fc.constant(true) }) },
);
const forMs = fc.integer({ min: 1, max: 100_000 });
const policy = scenarios.map((scenario) => scenario.policy);
const actions = fc.oneof(
  fc.record({ kind: fc.constant('block' as const), forMs }),
  fc.record({ kind: fc.constant('limit' as const), policy, forMs: fc.option(forMs, { nil: undefined }) }),
  fc.record({ kind: fc.constant('quiet' as const), minutes: pattern }),
  fc.record({ kind: fc.constantFrom('unblock' as const, 'unlimit' as const, 'unquiet' as const, 'reset' as const) }),
);
type Given = typeof actions extends fc.Arbitrary<infer T> ? T : never;

function toAction(given: Given, { now, start }: Bench): Action {
  switch (given.kind) {
    case 'block':
      return { kind: 'block', until: now + given.forMs, reason: 'exam' };
    case 'limit':
      return { kind: 'limit', policy: given.policy, until: given.forMs && now + given.forMs };
    case 'quiet':
      return { kind: 'quiet', hours: hoursOf(given.minutes, start) };
    default:
      return given;
  }
}

function optionsOf({ policy: overall, categories, quietMinutes }: Scenario, start: number) {
  const quietHours = quietMinutes && hoursOf(quietMinutes, start);
  return { policy: overall, categories, ...(quietHours && { quietHours }) };
}

const LONGEST_SEARCH_MS = 60_000;

it(
  'foresees each slot that an action then gives',
  async () => {
    const redis = connectRedis();
    let compared = 0;
    const run = fc.asyncProperty(
      scenarios,
      fc.array(steps, { minLength: 3, maxLength: 25, size: 'max' }),
      fc.array(actions, { minLength: 1, maxLength: 3 }),
      fc.constantFrom(0, 1_000),
      async (scenario, script, given, leadMs) => {
        const bench = new Bench(optionsOf(scenario, Date.now() + AHEAD_MS), redis);
        const categoryOf = new Map<string, string | undefined>();
        for (const [index, step] of script.entries()) {
          if ('passMs' in step) bench.now += step.passMs;
          const [next] = 'comeBack' in step ? (await bench.limiter.inspect(recipientId)).reserved : [];
          if (next !== undefined) bench.now = Math.max(bench.now, next.at);
          const id = 'ask' in step ? `id-${index}` : next?.id;
          if (id === undefined) continue;
          if ('ask' in step) categoryOf.set(id, step.ask);
          await bench.ask(id, categoryOf.get(id));
        }
        for (const each of given) {
          const action = toAction(each, bench);
          const foreseen = await bench.foresight.foresee(recipientId, action, leadMs);
          const moved = await bench.run(action, leadMs);
          expect(foreseen.slots.filter(({ from, at }) => from !== at)).toEqual(moved);
          const { reserved } = await bench.limiter.inspect(recipientId);
          expect(sorted(foreseen.slots)).toEqual(sorted(reserved));
          compared += moved.length;
        }
      },
    );
    await fc.assert(run, {
      numRuns: 100,
      interruptAfterTimeLimit: LONGEST_SEARCH_MS,
      markInterruptAsFailure: true,
    });
    expect(compared).toBeGreaterThan(50);
  },
  LONGEST_SEARCH_MS + 30_000,
);

function sorted(slots: readonly { readonly id?: string; readonly at: number }[]): string[] {
  return slots.map(({ id = '', at }) => `${id} ${at}`).sort();
}

describe('foresight', () => {
  const ats = (slots: readonly Moved[], { start }: Bench) =>
    Object.fromEntries(slots.map(({ id = '', at }) => [id, at - start]));

  it('a cancel frees the slot for those behind it', async () => {
    const bench = new Bench({ policy: POLICY });
    for (const id of ['a/0', 'b/0', 'c/0', 'd/0']) await bench.ask(id);
    const { slots } = await bench.foresight.foreseeCancel(recipientId, [{ jobId: 'b', enqueuedAt: 0, asks: 0 }], 0);
    expect(ats(slots, bench)).toEqual({ 'c/0': 2_000, 'd/0': 4_000 });
    await bench.limiter.cancel({ recipientId, id: 'b/0' });
    await bench.limiter.unlimit(recipientId); // plans anew
    expect(sorted((await bench.limiter.inspect(recipientId)).reserved)).toEqual(sorted(slots));
  });

  it('a digest keeps its slot until its last part is canceled', async () => {
    const bench = new Bench({ policy: POLICY });
    const join = { kind: 'digest', key: 'thread', at: 0, max: 10 } as const;
    await bench.ask('a/0');
    for (const id of ['b/0', 'c/0', 'd/0']) await bench.waiting.admit({ recipientId, id, join });
    await bench.ask('e/0');
    const after = async (...jobIds: string[]) => {
      const jobs = jobIds.map((jobId) => ({ jobId, enqueuedAt: 0, asks: 0 }));
      return ats((await bench.foresight.foreseeCancel(recipientId, jobs, 0)).slots, bench);
    };
    const full = { 'b/0': 2_000, 'e/0': 4_000 };
    expect([await after('b'), await after('c'), await after('c', 'd')]).toEqual([full, full, full]);
    expect(await after('b', 'c', 'd')).toEqual({ 'e/0': 2_000 });
    await bench.canceller.cancel({ recipientId, id: 'b/0', enqueuedAt: 0 });
    expect(await after('c', 'd')).toEqual({ 'e/0': 2_000 });
  });

  it('other general limits leave those alone that are stored for the recipient', async () => {
    const bench = new Bench({ policy: POLICY, categories: { messages: atMost(1, 6_000) } });
    for (const id of 'abc') await bench.ask(id, 'messages');
    const change: Change = { kind: 'policies', policy: gapOf(1_000), categories: { messages: atMost(1, 3_000) } };
    const before = await bench.foresight.foresee(recipientId, change, 0);
    expect(ats(before.slots, bench)).toEqual({ b: 3_000, c: 6_000 });
    await bench.limiter.limit(recipientId, gapOf(20_000));
    const after = await bench.foresight.foresee(recipientId, change, 0);
    expect(ats(after.slots, bench)).toEqual({ b: 20_000, c: 40_000 });
  });

  it('writes nothing, and refuses what the action would refuse', async () => {
    const bench = new Bench({ policy: POLICY });
    for (const id of 'abc') await bench.ask(id);
    const before = await bench.stored();
    const { foresight, now } = bench;
    await foresight.foresee(recipientId, { kind: 'block', until: now + 60_000, reason: 'exam' }, 0);
    await foresight.foresee(recipientId, { kind: 'limit', policy: gapOf(5_000) }, 0);
    await foresight.foresee(recipientId, { kind: 'reset' }, 0);
    expect(await bench.stored()).toEqual(before);
    const past = foresight.foresee(recipientId, { kind: 'block', until: now - 1, reason: 'exam' }, 0);
    await expect(past).rejects.toThrow('until: expected epoch milliseconds ahead of now');
    const bad = foresight.foresee(recipientId, { kind: 'limit', policy: gapOf(-1) }, 0);
    await expect(bad).rejects.toThrow('policy.minGapMs');
  });
});
