import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Limiter } from '../../src/limiter/limiter.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { createWaitingLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { cases } from '../support/cases.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { AHEAD_MS, recipientId } from './support.ts';

const policy = { rules: [{ max: 4, perMs: 30_000 }], minGapMs: 2_000 };
const categories = { messages: { rules: [{ max: 2, perMs: 40_000 }], minGapMs: 3_000 } };

function onRedis(now = () => Date.now() + AHEAD_MS) {
  const [redis, prefix] = [connectRedis(), testPrefix()];
  const limiter = createWaitingLimiter({ redis: onClock(redis, now), policy, prefix });
  return { redis, prefix, limiter, keys: recipientKeys(prefix, recipientId) };
}

const idsOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `msg-${index}/0`);

describe('what is noted of overtaking', () => {
  it('expires with the line, and is removed with those that wait no more', async () => {
    const { redis, limiter, keys } = onRedis(Date.now);
    for (const id of idsOf(4)) await limiter.admit({ recipientId, id });
    expect(await limiter.overtake({ recipientId, id: 'msg-3/0' })).toBe(2);
    expect(await redis.hgetall(keys.overtaken)).toEqual({
      'msg-3/0': '+',
      'msg-1/0': '1 2000',
      'msg-2/0': '1 2000',
    });
    const [expires, line] = await Promise.all([redis.pexpiretime(keys.overtaken), redis.pexpiretime(keys.reserved)]);
    expect(Math.abs(expires - line)).toBeLessThanOrEqual(1);

    for (let round = 0; round < 60; round += 1) {
      const id = `high-${round}/0`;
      await limiter.admit({ recipientId, id });
      await limiter.overtake({ recipientId, id });
      await limiter.cancel({ recipientId, id });
    }
    expect(await redis.hlen(keys.overtaken)).toBeLessThan(50);
  });

  it('is moved in parts where a line is long, each job once', async () => {
    const { limiter } = onRedis();
    const ids = idsOf(1_203);
    for (const id of ids) await limiter.admit({ recipientId, id });
    const parts: number[] = [];
    const options = { mostMs: 10 ** 9, onMoved: (moved: readonly unknown[]) => void parts.push(moved.length) };
    const id = ids.at(-1) ?? '';
    expect(await limiter.overtake({ recipientId, id }, options)).toBe(1_201);
    expect(parts).toEqual([501, 501, 202]);
    const { reserved } = await limiter.inspect(recipientId);
    expect(reserved.map((slot) => slot.id)).toEqual([id, ...ids.slice(1, -1)]);
  });

  it('is so for several at once too: they keep their order, and none stops on the way', async () => {
    const { limiter } = onRedis();
    const ids = idsOf(1_203);
    for (const id of ids) await limiter.admit({ recipientId, id });
    const high = Array.from({ length: 20 }, (_, index) => `high-${index}/0`);
    for (const id of high) await limiter.admit({ recipientId, id });
    // The first one is slow between its parts, and the others come up to it.
    const onMoved = () => sleep(30);
    const overtakings = high.map((id, index) =>
      limiter.overtake({ recipientId, id }, { mostMs: 10 ** 9, ...(index === 0 && { onMoved }) }),
    );
    const counts = await Promise.all(overtakings);
    expect(counts).toEqual(high.map(() => 1_202));
    const { reserved } = await limiter.inspect(recipientId);
    expect(reserved.slice(0, 21).map((slot) => slot.id)).toEqual([...high, ids[1]]);
  });
});

it('a high part of a digest moves its leader, with the whole digest', async () => {
  const { limiter } = onRedis();
  const enqueuedAt = 1_795_000_000_000;
  const join = { kind: 'digest' as const, key: 'chat', at: enqueuedAt, max: 100 };
  for (const id of ['sent/0', 'b/0', 'c/0']) await limiter.admit({ recipientId, id, enqueuedAt });
  await limiter.admit({ recipientId, id: 'leader/0', enqueuedAt, join });
  const part = { recipientId, id: 'part/0', enqueuedAt };
  const before = await limiter.admit({ ...part, join });
  const moved: unknown[] = [];
  expect(await limiter.overtake(part, { onMoved: (some) => void moved.push(...some.map(({ id }) => id)) })).toBe(2);
  expect(moved).toEqual(['c/0', 'b/0', 'leader/0']);
  const { reserved } = await limiter.inspect(recipientId);
  expect(reserved.map(({ id }) => id)).toEqual(['leader/0', 'b/0', 'c/0']);
  const after = await limiter.admit({ ...part, join });
  expect([before.kind, after.kind]).toEqual(['reserved', 'reserved']);
  expect('at' in before && 'at' in after && before.at - after.at).toBe(4_000);
});

type Step =
  | { readonly do: 'ask'; readonly high: boolean; readonly category: 'messages' | undefined }
  | { readonly do: 'cancel' | 'return'; readonly which: number }
  | { readonly do: 'pass'; readonly ms: number }
  | { readonly do: 'block'; readonly ms: number };

const steps: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      high: fc.boolean(),
      category: fc.constantFrom(undefined, undefined, 'messages' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), which: fc.nat(99) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('return' as const), which: fc.constant(0) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.nat(9_000) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('block' as const), ms: fc.integer({ min: 1, max: 60_000 }) }) },
);

describe('any interleaving of asks, cancels, blocks and overtakings', () => {
  it.each([
    ['without categories', {}],
    ['with a category', categories],
  ])(
    'is the same in memory and on Redis, and overtakes nobody too often, %s',
    async (_, own: Readonly<Record<string, typeof policy>>) => {
      const redis = connectRedis();
      const run = fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 40, size: 'max' }), (script) =>
        play(script, own, redis),
      );
      await fc.assert(run, { numRuns: cases(200) });
    },
  );
});

async function play(script: readonly Step[], own: Readonly<Record<string, typeof policy>>, redis = connectRedis()) {
  let now = Date.now() + AHEAD_MS;
  const clock = (): number => now;
  const options = { policy, categories: own };
  const memory = createMemoryLimiter({ ...options, now: clock });
  const real = createWaitingLimiter({ ...options, redis: onClock(redis, clock), prefix: testPrefix() });
  const both: readonly Pick<Limiter, 'overtake' | 'cancel' | 'block' | 'inspect'>[] = [memory, real];
  const categoryOf = new Map<string, 'messages' | undefined>();
  const slotOf = (id: string) => ({ recipientId, id, ...(categoryOf.get(id) && { category: 'messages' }) });
  const alerted: { id: string; at: number }[] = [];
  const bounds = { mostTimes: 3, mostMs: 20_000 };

  const ask = async (id: string): Promise<void> => {
    const [here, there] = [await memory.admit(slotOf(id)), await real.admit(slotOf(id))];
    expect([here.kind, 'at' in here && here.at]).toEqual([there.kind, 'at' in there && there.at]);
    if (here.kind === 'admitted' && !here.repeated) alerted.push({ id, at: here.at });
  };
  for (const [index, step] of script.entries()) {
    const { reserved } = await memory.inspect(recipientId);
    if (step.do === 'pass') now += step.ms;
    else if (step.do === 'block') {
      const block = { until: now + step.ms, reason: 'exam' };
      for (const each of both) await each.block(recipientId, block);
    } else if (step.do === 'ask') {
      const id = `${step.high ? 'high' : 'normal'}-${index}/0`;
      categoryOf.set(id, own['messages'] === undefined ? undefined : step.category);
      await ask(id);
      if (!step.high) continue;
      const counts = await Promise.all(both.map((each) => each.overtake(slotOf(id), bounds)));
      expect(counts[0]).toBe(counts[1]);
    } else {
      const id = reserved[Math.floor((step.which * reserved.length) / 100)]?.id;
      if (id === undefined) continue;
      if (step.do === 'cancel') for (const each of both) await each.cancel(slotOf(id));
      else {
        now = Math.max(now, reserved[0]?.at ?? 0);
        await ask(id);
      }
    }
    const [here, there] = await Promise.all(both.map((each) => each.inspect(recipientId)));
    expect(here?.reserved).toEqual(there?.reserved);
    for (const { id = '', overtaken = 0 } of here?.reserved ?? []) {
      expect(overtaken).toBeLessThanOrEqual(bounds.mostTimes);
      if (id.startsWith('high')) expect(overtaken).toBe(0);
    }
  }
  const instants = alerted.map(({ at }) => at).sort((a, b) => a - b);
  for (const [index, at] of instants.entries()) {
    if (index > 0) expect(at - (instants[index - 1] ?? 0)).toBeGreaterThanOrEqual(policy.minGapMs);
    if (index >= 4) expect(at - (instants[index - 4] ?? 0)).toBeGreaterThanOrEqual(30_000);
  }
}
