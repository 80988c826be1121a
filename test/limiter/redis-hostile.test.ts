import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { AHEAD_MS, recipientId } from './stored.ts';

const policy = { rules: [{ max: 3, perMs: 1_000 }], minGapMs: 0 };

describe('a Redis that refuses one ask', () => {
  it('is not away: the ask is rejected with its word, and nobody else is let through', async () => {
    const redis = connectRedis();
    const prefix = testPrefix();
    const onOutage: boolean[] = [];
    const limiter = createRedisLimiter({
      ...{ redis, prefix, policy: { rules: [{ max: 1, perMs: 60_000 }], minGapMs: 0 }, onUnavailable: 'open' },
      onOutage: (isAway) => onOutage.push(isAway),
    });
    await limiter.admit({ recipientId: 'teacher-43', id: 'a' });
    await redis.set(recipientKeys(prefix, recipientId).sent, 'not a sorted set');
    const asked = limiter.admit({ recipientId, id: 'a' });
    await expect(asked).rejects.toThrow('WRONGTYPE');
    await expect(asked).rejects.not.toBeInstanceOf(LimiterUnavailableError);
    expect(await limiter.admit({ recipientId: 'teacher-43', id: 'b' })).toMatchObject({ kind: 'reserved' });
    expect(onOutage).toEqual([]);
  });
});

describe('a client that hands numbers over as text', () => {
  it('is told the same answers', async () => {
    const redis = new Redis(testRedisUrl(), { stringNumbers: true });
    onTestFinished(() => redis.disconnect());
    const limiter = createRedisLimiter({ redis, policy: { rules: [], minGapMs: 2_000 }, prefix: testPrefix() });
    const first = await limiter.admit({ recipientId, id: 'a' });
    expect(first).toMatchObject({ kind: 'admitted', at: expect.any(Number) as number, rule: 'gap' });
    expect(await limiter.admit({ recipientId, id: 'b' })).toMatchObject({ kind: 'reserved', rule: 'gap' });
    await limiter.block(recipientId, { until: Date.now() + 60_000, reason: 'exam' });
    const { block, now, reserved } = await limiter.inspect(recipientId);
    expect([typeof block?.until, typeof now, reserved.length]).toEqual(['number', 'number', 1]);
    expect(await limiter.refund({ recipientId, id: 'a' })).toBe(true);
  });
});

describe('options and bounds', () => {
  it.each([NaN, Infinity, -1, 60_000.5])('keepMs of %d is refused at once', (keepMs) => {
    const create = () => createRedisLimiter({ redis: connectRedis(), policy, keepMs });
    expect(create).toThrow(InputError);
    expect(create).toThrow(/^unusable options.*keepMs: expected an integer/s);
    expect(() => createMemoryLimiter({ policy, keepMs })).toThrow(InputError);
  });

  it.each([-Infinity, -5])('a longest wait of %d is one of nothing', async (maxWaitMs) => {
    const limiter = createRedisLimiter({ redis: connectRedis(), policy, prefix: testPrefix() });
    for (const id of ['a', 'b', 'c']) await limiter.admit({ recipientId, id, maxWaitMs });
    expect(await limiter.admit({ recipientId, id: 'd', maxWaitMs })).toMatchObject({ because: 'max-wait' });
  });
});

describe('what stays of asks that count though they wait', () => {
  it.each([0, undefined])('is what the window holds, however long they go on; longest wait %s', async (maxWaitMs) => {
    let now = Date.now() + AHEAD_MS;
    const redis = connectRedis();
    const prefix = testPrefix();
    const limiter = createRedisLimiter({ redis: onClock(redis, () => now), policy, prefix, countBlocked: true });
    for (let asked = 0; asked < 200; asked += 1) {
      now += 50;
      await limiter.admit({ recipientId, id: `ask-${asked}`, ...(maxWaitMs !== undefined && { maxWaitMs }) });
    }
    expect(await redis.zcard(recipientKeys(prefix, recipientId).sent)).toBeLessThanOrEqual(22);
  });
});

it('a key that somebody has made to last outlives a refund, and so do the other slots in it', async () => {
  const redis = connectRedis();
  const prefix = testPrefix();
  const limiter = createRedisLimiter({ redis, policy, prefix });
  for (const id of ['a', 'b']) {
    await limiter.admit({ recipientId, id });
    await new Promise((resolve) => setTimeout(resolve, 5)); // another millisecond
  }
  const { sent } = recipientKeys(prefix, recipientId);
  await redis.persist(sent);
  expect(await limiter.refund({ recipientId, id: 'b' })).toBe(true);
  expect(await redis.zcard(sent)).toBe(1);
  await limiter.reset(recipientId);
});
