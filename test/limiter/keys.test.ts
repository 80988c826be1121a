import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { memberOf, recipientKeys } from '../../src/limiter/redis/keys.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { connectRedis, testPrefix, testRedisUrl } from '../support/redis.ts';
import { recipientId } from './support.ts';

const HOSTILE = {
  braces: '}{a}:sent',
  'an opening brace': '{',
  'line breaks': 'a\r\nDEL *\r\n',
  NUL: 'a\0b',
  'half a character': '\ud800',
  'the other half': '\udc00',
  '10 kB': 'x'.repeat(10_240),
  '10 kB and one': 'x'.repeat(10_241),
  'what a digest looks like': '#47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU',
  'a space': ' ',
  'another script': '教師四十二',
  'a glob': '*',
};

describe('recipientKeys', () => {
  it('keeps a plain id readable, and makes it the hash tag', () => {
    expect(recipientKeys('pushpacer', 'teacher-42')).toEqual({
      settings: 'pushpacer:{teacher-42}:settings',
      waiting: 'pushpacer:{teacher-42}:waiting',
      sent: 'pushpacer:{teacher-42}',
      reserved: 'pushpacer:{teacher-42}:reserved',
    });
  });

  it('leaves the braces of a prefix out: two recipients are not bound to one node', () => {
    expect(recipientKeys('{pushpacer}', 'teacher-42')).toEqual(recipientKeys('pushpacer', 'teacher-42'));
  });

  it('is so on Redis: each hostile recipient has a limit of its own, for hostile ids too', async () => {
    const policy = { rules: [{ max: 1, perMs: 60_000 }], minGapMs: 0 };
    const limiter = createRedisLimiter({ redis: connectRedis(), policy, prefix: testPrefix() });
    for (const recipientId of Object.values(HOSTILE)) {
      expect(await limiter.admit({ recipientId, id: recipientId })).toMatchObject({
        kind: 'admitted',
        repeated: false,
      });
      expect(await limiter.admit({ recipientId, id: recipientId })).toMatchObject({ kind: 'admitted', repeated: true });
      expect(await limiter.admit({ recipientId, id: `${recipientId}2` })).toMatchObject({ kind: 'reserved' });
      expect(await limiter.reset(recipientId)).toBe(true);
    }
  });
});

describe('memberOf', () => {
  it('makes 32-bit integers, never the same for two ids of a counter', () => {
    const members = Array.from({ length: 9_000 }, (_, number) => Number(memberOf(`msg-${1_000 + number}/0`)));
    expect(members.every((member) => member === (member | 0))).toBe(true);
    expect(new Set(members).size).toBe(members.length);
  });
});

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
  it('gets the same answers', async () => {
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
