import fc from 'fast-check';
import { expect, it } from 'vitest';
import { categoryKeys, recipientKeys } from '../../src/limiter/redis/keys.ts';
import { crc16, SLOTS } from '../../src/queue/names.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { hostileText } from './hostile.ts';

const POLICY = { rules: [{ max: 1, perMs: 60_000 }], minGapMs: 1_000 };
const CATEGORIES = { messages: { rules: [{ max: 1, perMs: 120_000 }], minGapMs: 0 } };

/** All keys that a recipient may have; `category` may be any text for those who use the limiter as a library. */
function keysOf(prefix: string, recipientId: string, category: string): string[] {
  const keys = recipientKeys(prefix, recipientId);
  const ofCategory = categoryKeys(keys, category);
  return [keys.settings, keys.sent, keys.reserved, keys.waiting, ofCategory.sent, ofCategory.reserved];
}

/** As Redis Cluster has it: what lies between the first `{` and the next `}`, unless that is nothing. */
function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  return crc16(close > open + 1 ? key.slice(open + 1, close) : key) % SLOTS;
}

const recipients = fc.tuple(hostileText, hostileText).filter(([one, other]) => one !== other);

it('two recipients never share a key, whatever their ids and categories are', () => {
  fc.assert(
    fc.property(recipients, hostileText, hostileText, ([one, other], category, another) => {
      const keys = new Set(keysOf('{pushpacer}', one, category));
      const shared = [...keysOf('{pushpacer}', other, category), ...keysOf('{pushpacer}', other, another)].filter(
        (key) => keys.has(key),
      );
      expect(shared).toEqual([]);
    }),
    { numRuns: 2_000 },
  );
});

it('a recipient has one slot of a cluster, and keys that are plain and short', () => {
  fc.assert(
    fc.property(hostileText, hostileText, (recipientId, category) => {
      const keys = keysOf('{pushpacer}', recipientId, category);
      expect(new Set(keys.map(slotOf)).size).toBe(1);
      for (const key of keys) expect(key).toMatch(/^pushpacer:\{[!-z|~]{1,128}\}(:[!-z|~]+)*$/);
      for (const key of keys) expect(key.length).toBeLessThan(300);
    }),
    { numRuns: 2_000 },
  );
});

it('a Redis Cluster agrees: each recipient has limits of its own, in one slot, and leaves nothing elsewhere', async () => {
  const redis = connectRedis(); // a cluster of one node
  await fc.assert(
    fc.asyncProperty(recipients, hostileText, async ([one, other], id) => {
      const prefix = testPrefix();
      const limiter = createRedisLimiter({ redis, policy: POLICY, categories: CATEGORIES, prefix });
      const ask = { recipientId: one, id, category: 'messages' };
      const first = await limiter.admit(ask);
      expect(first).toMatchObject({ kind: 'admitted', repeated: false });
      expect(await limiter.admit({ ...ask, id: `${id}2` })).toMatchObject({ kind: 'reserved' });
      await limiter.block(one, { reason: 'a test', until: Date.now() + 60_000 });
      const keys = await redis.keys(`${prefix.slice(1, -1)}*`);
      const slots = await Promise.all(keys.map((key) => redis.call('CLUSTER', 'KEYSLOT', key)));
      expect(keys.length).toBeGreaterThan(2);
      expect(new Set(slots).size).toBe(1);
      expect(slots[0]).toBe(slotOf(keys[0] ?? ''));
      expect(await limiter.admit({ ...ask, recipientId: other })).toMatchObject({ kind: 'admitted', repeated: false });
      expect(await limiter.reset(other)).toBe(true);
      expect((await limiter.inspect(one)).sent).toHaveLength(1);
    }),
    { numRuns: 60 },
  );
});
