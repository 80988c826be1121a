import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Limiter, Moved } from '../../src/limiter/limiter.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { IN_ORDER } from '../../src/limiter/overtaking.ts';
import { createCanceller, createWaitingLimiter } from '../support/limiters.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { AHEAD_MS, expectKept, recipientId } from './support.ts';

const policy = { rules: [{ max: 4, perMs: 30_000 }], minGapMs: 2_000 };
const categories = { messages: { rules: [{ max: 2, perMs: 40_000 }], minGapMs: 3_000 } };
const enqueuedAt = 1_795_000_000_000;

function onRedis(now = () => Date.now() + AHEAD_MS, mostMs = 10 ** 9) {
  const [redis, prefix] = [connectRedis(), testPrefix()];
  const overtaking = { mostTimes: 20, mostMs };
  const limiter = createWaitingLimiter({ redis: onClock(redis, now), policy, prefix, overtaking });
  const fields = async () => Object.keys(await redis.hgetall(recipientKeys(prefix, recipientId).waiting)).toSorted();
  const line = async () => (await limiter.inspect(recipientId)).reserved.map(({ id }) => id);
  return { redis, prefix, limiter, fields, line, keys: recipientKeys(prefix, recipientId) };
}

const idsOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `msg-${index}/0`);

describe('what is noted of the order', () => {
  it('lasts as long as the reservation, also when that is moved, and is removed on every way out', async () => {
    let now = Date.now();
    const { redis, limiter, keys, fields } = onRedis(() => now);
    for (const id of idsOf(4)) await limiter.admit({ recipientId, id, enqueuedAt });
    const high = { recipientId, id: 'high/0', enqueuedAt, goesFirst: true };
    await limiter.admit(high);
    await limiter.moveUp(recipientId);
    expect(await fields()).toEqual(['high/0', 'msg-1/0', 'msg-2/0', 'msg-3/0'].map((id) => `order:${id}`));
    const lineAndNotes = () => Promise.all([keys.reserved, keys.waiting].map((key) => redis.pexpiretime(key)));
    const [line, notes] = await lineAndNotes();
    expect(notes).toBe(line);
    await limiter.block(recipientId, { until: now + 86_400_000, reason: 'exam' });
    const [lineLater = 0, notesLater] = await lineAndNotes();
    expect(lineLater - (line ?? 0)).toBeGreaterThan(86_300_000);
    expect(notesLater).toBe(lineLater);
    await limiter.unblock(recipientId);

    expect((await limiter.release({ recipientId, id: 'msg-3/0', enqueuedAt, how: 'ended' })).hadSlot).toBe(true);
    expect(await limiter.cancel({ recipientId, id: 'msg-2/0' })).toBe(true);
    expect(await fields()).toEqual(['order:high/0', 'order:msg-1/0']);
    now += 2_000;
    expect((await limiter.admit(high)).kind).toBe('admitted');
    now += 2_000;
    expect((await limiter.admit({ recipientId, id: 'msg-1/0', enqueuedAt })).kind).toBe('admitted');
    expect(await redis.exists(keys.waiting)).toBe(0);
  });

  it('is removed too if a newer one came while its cancel was taken back', async () => {
    const { redis, prefix, limiter, fields } = onRedis();
    const canceller = createCanceller({ redis, prefix });
    const join = { kind: 'latest' as const, key: 'score', max: 1 };
    const old = { recipientId, id: 'old/0', enqueuedAt };
    await limiter.admit({ recipientId, id: 'first/0', enqueuedAt });
    const waiting = { ...old, goesFirst: true, join: { ...join, at: 1 } };
    expect((await limiter.admit(waiting)).kind).toBe('reserved');
    expect((await canceller.cancel(old)).canceled).toBe(true);
    expect(await canceller.takeBack(old)).toBe(true);
    await limiter.admit({ recipientId, id: 'new/0', enqueuedAt, join: { ...join, at: 2 } });
    expect(await limiter.admit(waiting)).toMatchObject({ kind: 'ended', how: 'superseded' });
    expect((await fields()).filter((field) => field.startsWith('order:'))).toEqual([]);
  });

  it('goes with a slot to another id', async () => {
    const { limiter, fields, line } = onRedis();
    for (const id of idsOf(2)) await limiter.admit({ recipientId, id, enqueuedAt });
    const join = { kind: 'latest' as const, key: 'score', max: 1 };
    await limiter.admit({ recipientId, id: 'old/0', enqueuedAt, join: { ...join, at: 1 } });
    await limiter.admit({ recipientId, id: 'high/0', enqueuedAt, goesFirst: true });
    await limiter.moveUp(recipientId);
    await limiter.admit({ recipientId, id: 'new/0', enqueuedAt, join: { ...join, at: 2 } });
    expect(await line()).toEqual(['high/0', 'msg-1/0', 'new/0']);
    expect((await fields()).filter((field) => field.startsWith('order:'))).toEqual(
      ['high/0', 'msg-1/0', 'new/0'].map((id) => `order:${id}`),
    );
    await limiter.admit({ recipientId, id: 'newest/0', enqueuedAt, goesFirst: true, join: { ...join, at: 3 } });
    await limiter.moveUp(recipientId);
    expect(await line()).toEqual(['high/0', 'newest/0', 'msg-1/0']);
  });

  it('is of the whole digest where a part goes first, also when its leader leaves', async () => {
    const { limiter, line } = onRedis();
    const join = { kind: 'digest' as const, key: 'chat', at: enqueuedAt, max: 100 };
    for (const id of ['sent/0', 'b/0', 'c/0']) await limiter.admit({ recipientId, id, enqueuedAt });
    await limiter.admit({ recipientId, id: 'leader/0', enqueuedAt, join });
    const part = { recipientId, id: 'part/0', enqueuedAt, join, goesFirst: true };
    const before = await limiter.admit(part);
    await limiter.moveUp(recipientId);
    expect(await line()).toEqual(['leader/0', 'b/0', 'c/0']);
    const after = await limiter.admit(part);
    expect([before.kind, after.kind]).toEqual(['reserved', 'reserved']);
    expect('at' in before && 'at' in after && before.at - after.at).toBe(4_000);

    await limiter.release({ recipientId, id: 'leader/0', enqueuedAt, how: 'unseen' });
    await limiter.admit({ recipientId, id: 'high/0', enqueuedAt, goesFirst: true });
    await limiter.moveUp(recipientId);
    expect(await line()).toEqual(['part/0', 'high/0', 'b/0', 'c/0']);
  });
});

it('a long line moves in parts, the nearest first, each once, and the caller is waited for', async () => {
  const start = Date.now() + AHEAD_MS;
  const { limiter, line } = onRedis(() => start); // it takes longer than a gap on a busy machine
  const ids = idsOf(1_203);
  for (const id of ids) await limiter.admit({ recipientId, id });
  const high = Array.from({ length: 20 }, (_, index) => `high-${index}/0`);
  for (const id of high) await limiter.admit({ recipientId, id, goesFirst: true });
  const parts: (readonly Moved[])[] = [];
  let isBusy = false;
  await limiter.moveUp(recipientId, {
    async onMoved(moved) {
      expect(isBusy).toBe(false);
      isBusy = true;
      await new Promise((resolve) => setImmediate(resolve));
      parts.push(moved);
      isBusy = false;
    },
  });
  expect(isBusy).toBe(false);
  expect(parts.map(({ length }) => length)).toEqual([500, 500, 222]);
  const nearest = parts.flat().slice(0, 20);
  expect(nearest.map(({ id }) => id)).toEqual(high);
  expect(await line()).toEqual([...high, ...ids.slice(1)]);
});

it('does not take the slot of one that is sent while the line is read, but the next one', async () => {
  let now = Date.now() + AHEAD_MS;
  const { redis, prefix, limiter } = onRedis(() => now);
  for (const id of idsOf(5)) await limiter.admit({ recipientId, id });
  now += 1_700;
  await limiter.admit({ recipientId, id: 'high/0', goesFirst: true });
  // A reader that is slow once: meanwhile the first one that waits is sent in its slot.
  let isSlow = true;
  const slow = onClock(redis, () => now);
  const hmget = slow.hmget.bind(slow);
  slow.hmget = (async (...args: Parameters<typeof hmget>) => {
    const notes = await hmget(...args);
    if (isSlow) {
      isSlow = false;
      now += 300;
      expect((await limiter.admit({ recipientId, id: 'msg-1/0' })).kind).toBe('admitted');
    }
    return notes;
  }) as typeof slow.hmget;
  await createWaitingLimiter({ redis: slow, policy, prefix }).moveUp(recipientId);
  const { reserved } = await limiter.inspect(recipientId);
  expect(reserved.map(({ id }) => id)).toEqual(['high/0', 'msg-2/0', 'msg-3/0', 'msg-4/0']);
  expect((reserved[0]?.at ?? 0) - now).toBe(2_000);
});

it('gives no slot to one that is canceled just before the line moves', async () => {
  const { limiter } = onRedis();
  for (const id of idsOf(4)) await limiter.admit({ recipientId, id });
  await limiter.refund({ recipientId, id: 'msg-0/0' });
  const canceled: boolean[] = [];
  await limiter.moveUp(recipientId, {
    onMoving: async () => void canceled.push(await limiter.cancel({ recipientId, id: 'msg-2/0' })),
  });
  expect(canceled[0]).toBe(true);
  const { reserved } = await limiter.inspect(recipientId);
  expect(reserved.map(({ id }) => id)).toEqual(['msg-1/0', 'msg-3/0']);
});

it('keeps its place, and gets no other one, by the commands of an operator', async () => {
  const { redis, prefix, limiter, line } = onRedis();
  const operator = createWaitingLimiter({
    redis: onClock(redis, () => Date.now() + AHEAD_MS),
    ...{ policy, prefix, overtaking: IN_ORDER },
  });
  for (const id of idsOf(3)) await limiter.admit({ recipientId, id });
  await limiter.admit({ recipientId, id: 'high/0', goesFirst: true });
  await operator.unblock(recipientId);
  expect(await line()).toEqual(['msg-1/0', 'msg-2/0', 'high/0']);
  await limiter.moveUp(recipientId);
  await operator.block(recipientId, { until: Date.now() + 2 * AHEAD_MS, reason: 'exam' });
  await operator.unblock(recipientId);
  expect(await line()).toEqual(['high/0', 'msg-1/0', 'msg-2/0']);
});

it('tells the last slot of those that another process moves at the same time', async () => {
  const { limiter } = onRedis();
  for (const id of idsOf(6)) await limiter.admit({ recipientId, id });
  await limiter.admit({ recipientId, id: 'high/0', goesFirst: true });
  const told = new Map<string, number>();
  let isFirst = true;
  await limiter.moveUp(recipientId, {
    async onMoved(moved) {
      // Between the move and the new due time of the job, an operator blocks the recipient, and the new due times are written.
      if (isFirst) {
        isFirst = false;
        const { now } = await limiter.inspect(recipientId);
        const block = { until: now + 3_600_000, reason: 'exam' };
        await limiter.block(recipientId, block, {
          onMoved: (all) => all.forEach(({ id = '', at }) => told.set(id, at)),
        });
      }
      for (const { id = '', at } of moved) told.set(id, at);
    },
  });
  const { reserved } = await limiter.inspect(recipientId);
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(reserved.map(({ id = '', at }) => [id, at])));
});

describe('the wait that it would have', () => {
  it('is that of the first slot of the others, with the quiet time in it', async () => {
    const { limiter } = onRedis();
    for (const id of idsOf(4)) await limiter.admit({ recipientId, id });
    const ask = { recipientId, id: 'high/0', goesFirst: true, maxWaitMs: 3_000 };
    const refused = await limiter.admit(ask);
    expect(refused).toMatchObject({ kind: 'refused', because: 'max-wait' });
    const waitMs = 'waitMs' in refused ? refused.waitMs : NaN;
    const foreseen = await limiter.foreseeFirst(ask, waitMs);
    expect(foreseen.quietMs).toBe(0);
    expect(foreseen.waitMs).toBeGreaterThan(1_500);
    expect(foreseen.waitMs).toBeLessThanOrEqual(2_000);
    expect((await limiter.inspect(recipientId)).reserved).toHaveLength(3);
  });
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

describe('any interleaving of asks, cancels, blocks and such that go first', () => {
  it.each([
    ['without categories', {}],
    ['with a category', categories],
  ])('is the same in memory and on Redis, and overtakes nobody too often, %s', async (_, own: Own) => {
    const redis = connectRedis();
    const run = fc.asyncProperty(fc.array(steps, { minLength: 5, maxLength: 40, size: 'max' }), (script) =>
      play(script, own, redis),
    );
    await fc.assert(run, { numRuns: 60 });
  });
});

type Own = Readonly<Record<string, typeof policy>>;

async function play(script: readonly Step[], own: Own, redis = connectRedis()) {
  let now = Date.now() + AHEAD_MS;
  const clock = (): number => now;
  const bounds = { mostTimes: 3, mostMs: 20_000 };
  const options = { policy, categories: own, overtaking: bounds };
  const memory = createMemoryLimiter({ ...options, now: clock });
  const real = createWaitingLimiter({ ...options, redis: onClock(redis, clock), prefix: testPrefix() });
  const both: readonly Pick<Limiter, 'moveUp' | 'cancel' | 'block' | 'inspect'>[] = [memory, real];
  const categoryOf = new Map<string, 'messages' | undefined>();
  const slotOf = (id: string) => ({ recipientId, id, ...(categoryOf.get(id) && { category: 'messages' }) });
  const [alerted, ofCategory]: [number[], number[]] = [[], []];

  const ask = async (id: string): Promise<void> => {
    const asked = { ...slotOf(id), goesFirst: id.startsWith('high') };
    const [here, there] = [await memory.admit(asked), await real.admit(asked)];
    expect([here.kind, 'at' in here && here.at]).toEqual([there.kind, 'at' in there && there.at]);
    if (here.kind !== 'admitted' || here.repeated) return;
    alerted.push(here.at);
    if (asked.category !== undefined) ofCategory.push(here.at);
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
      if (step.high) for (const each of both) await each.moveUp(recipientId);
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
    for (const { goesBefore, overtaken = 0 } of here?.reserved ?? []) {
      expect(overtaken).toBeLessThanOrEqual(goesBefore === undefined ? bounds.mostTimes : 0);
    }
  }
  expectKept(policy, alerted);
  expectKept(categories.messages, ofCategory);
}
