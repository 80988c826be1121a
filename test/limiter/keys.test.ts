import { describe, expect, it } from 'vitest';
import { memberOf, recipientKeys } from '../../src/limiter/redis/keys.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

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

  it('gives every recipient keys of its own', () => {
    const ids = [...Object.values(HOSTILE), '', 'teacher-42', 'Teacher-42', 'teacher-42 ', '\u00e9', 'e\u0301'];
    expect(new Set(ids.map((id) => recipientKeys('p', id).sent)).size).toBe(ids.length);
  });

  it('holds on Redis: each hostile recipient has a limit of its own, for hostile ids too', async () => {
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
  it('makes 32-bit integers that spread evenly, and are the same each time', () => {
    const members = Array.from({ length: 20_000 }, (_, number) => Number(memberOf(`msg-${number}`)));
    expect(members.every((member) => member === (member | 0))).toBe(true);
    const tenths = Array.from(
      { length: 10 },
      (_, tenth) => members.filter((member) => Math.floor(((member + 2 ** 31) / 2 ** 32) * 10) === tenth).length,
    );
    for (const count of tenths) expect(count).toBeGreaterThan(1_800); // 2,000 each, give or take 5 deviations
    expect(memberOf('msg-8841')).toBe(memberOf('msg-8841'));
  });

  it('never gives two ids of a counter one entry', () => {
    const members = Array.from({ length: 9_000 }, (_, number) => memberOf(`msg-${1_000 + number}/0`));
    expect(new Set(members).size).toBe(members.length);
  });
});
