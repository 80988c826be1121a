import fc from 'fast-check';
import type { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import type { Policy } from '../../src/domain/limits.ts';
import type { Admission, Ask, Limiter } from '../../src/limiter/limiter.ts';
import { createMemoryLimiter } from '../../src/limiter/memory-limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis-limiter.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { expectKept } from './kept.ts';
import { Reference, type Answer } from './reference.ts';
import { AHEAD_MS, readRecipient, recipientId } from './stored.ts';

const windowMs = fc.oneof(fc.integer({ min: 1, max: 20_000 }), fc.integer({ min: 1, max: 2_000 }));
const policies: fc.Arbitrary<Policy> = fc.record({
  rules: fc.array(fc.record({ max: fc.integer({ min: 1, max: 4 }), perMs: windowMs }), { maxLength: 3 }),
  minGapMs: fc.oneof(fc.constantFrom(0, 0, 1, 2, 200, 3_000), fc.integer({ min: 0, max: 5_000 })),
});

/** Which of the ids so far; the highest numbers stand for the newest. */
const which = fc.nat({ max: 99 });
const steps = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('ask' as const), maxWaitMs: fc.option(fc.nat(30_000)) }) },
  // Comes back at its slot: at an edge of the tolerance, a little early or late, or far from it.
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('return' as const),
      which,
      holds: fc.constantFrom(-1, 0, 1),
      lateMs: fc.constantFrom(-1, 0, 1),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('return' as const),
      which,
      holds: fc.constant(0),
      lateMs: fc.integer({ min: -300, max: 300 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('return' as const),
      which,
      holds: fc.constant(0),
      lateMs: fc.integer({ min: -2_000, max: 2_000 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('again', 'renew', 'peek', 'refund', 'cancel'), which }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.oneof(fc.nat(300), fc.nat(5_000), fc.nat(90_000)),
    }),
  },
);
type Step = typeof steps extends fc.Arbitrary<infer S> ? S : never;

describe.each(['in memory', 'on Redis'])(
  'any interleaving of asks, late returns, no-shows and undoings, %s',
  (where) => {
    it('is answered like the reference, and keeps the promise', async () => {
      const redis = where === 'on Redis' ? connectRedis() : undefined;
      const run = fc.asyncProperty(policies, fc.array(steps, { minLength: 5, maxLength: 60 }), (policy, script) =>
        play(policy, script, redis),
      );
      await fc.assert(run, { numRuns: redis === undefined ? 500 : 250 });
    });
  },
);

async function play(policy: Policy, script: readonly Step[], redis: Redis | undefined): Promise<void> {
  let now = Date.now() + AHEAD_MS;
  const prefix = testPrefix();
  const limiter: Limiter = redis
    ? createRedisLimiter({ redis, policy, prefix, now: () => now })
    : createMemoryLimiter({ policy, now: () => now });
  const reference = new Reference(policy);
  const used = new Map<string, number>();
  const ids: string[] = [];
  const stored = async () => (redis ? await readRecipient(redis, prefix) : undefined);

  async function ask(asked: Ask): Promise<void> {
    const before = await stored();
    const behind = reference.queue(now, asked.id);
    const isNew = !reference.sent.has(asked.id) && !reference.reserved.has(asked.id);
    const expected = reference.admit(asked, now);
    const answer = withoutSendAt(await limiter.admit(asked));
    expect(answer).toEqual(expected);
    if (answer.kind === 'refused') expect(await stored()).toEqual(before);
    if (answer.kind === 'admitted') used.set(asked.id, answer.at ?? NaN);
    if (answer.kind === 'reserved') used.delete(asked.id);
    if (isNew && answer.kind !== 'refused') expect(answer.at).toBeGreaterThanOrEqual(Math.max(0, ...behind));
    const after = await stored();
    if (after) expectStored(after, reference, now);
  }

  for (const step of script) {
    const choice = step.do === 'return' ? [...reference.reserved.keys()] : ids;
    const id = 'which' in step ? choice[Math.floor((step.which * choice.length) / 100)] : `id-${ids.length}`;
    if (step.do === 'pass') now += step.ms;
    if (id === undefined) continue;
    const asked = { recipientId, id };
    switch (step.do) {
      case 'ask':
        ids.push(id);
        await ask({ ...asked, ...(step.maxWaitMs !== null && { maxWaitMs: step.maxWaitMs }) });
        break;
      case 'return':
        now = Math.max(now, (reference.reserved.get(id) ?? now) + step.holds * reference.holdMs + step.lateMs);
        await ask(asked);
        break;
      case 'again': // the client resends the script: the same answer, the same slot
        await ask(asked);
        await ask(asked);
        break;
      case 'renew':
        await ask({ ...asked, renew: true });
        break;
      case 'peek': {
        const before = await stored();
        expect(withoutSendAt(await limiter.peek(asked))).toEqual(reference.peek(asked, now));
        expect(await stored()).toEqual(before);
        break;
      }
      case 'refund': {
        const sentAt = reference.sent.get(id) ?? -Infinity;
        const refunded = await limiter.refund(recipientId, id);
        if (sentAt >= now - reference.keepMs || sentAt === -Infinity) expect(refunded).toBe(reference.sent.has(id));
        reference.sent.delete(id);
        used.delete(id);
        break;
      }
      case 'cancel': {
        const slot = reference.reserved.get(id) ?? -Infinity;
        const cancelled = await limiter.cancel(recipientId, id);
        if (slot >= now - 60_000 || slot === -Infinity) expect(cancelled).toBe(reference.reserved.has(id));
        reference.reserved.delete(id);
        break;
      }
    }
  }
  expectKept(policy, [...used.values()]);
  await limiter.reset(recipientId);
}

function withoutSendAt(admission: Admission): Answer {
  return Object.fromEntries(Object.entries(admission).filter(([field]) => field !== 'sendAt')) as unknown as Answer;
}

/** No id twice, nothing beyond what the reference holds, and an expiry for every key. */
function expectStored(stored: Awaited<ReturnType<typeof readRecipient>>, reference: Reference, now: number): void {
  const { sent, reserved } = stored;
  const ids = [...sent.slots, ...reserved.slots].map(([id]) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const held = [...reference.sent.values()].filter((slot) => slot >= now - reference.keepMs);
  expect(sent.slots.map(([, slot]) => slot).filter((slot) => slot >= now - reference.keepMs)).toEqual(
    held.sort((a, b) => a - b),
  );
  for (const [{ slots, expiresAt }, keepMs] of [
    [sent, reference.keepMs],
    [reserved, 60_000],
  ] as const) {
    const last = slots.at(-1)?.[1];
    expect(expiresAt).toBe(last === undefined ? undefined : last + keepMs);
  }
}
