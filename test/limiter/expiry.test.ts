import { expect, it } from 'vitest';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { recipientId } from './stored.ts';

const slow = { policy: { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 0 }, maxWaitMs: 0 };

it('an ask under a short window does not shorten the life of what was sent under a long one, on Redis’s own clock', async () => {
  const redis = connectRedis();
  const prefix = testPrefix();
  const limiter = createRedisLimiter({ redis, policy: { rules: [{ max: 100, perMs: 200 }], minGapMs: 0 }, prefix });
  const { sent } = recipientKeys(prefix, recipientId);
  for (let count = 0; count < 5; count += 1) await limiter.admit({ recipientId, id: `slow-${count}`, ...slow });
  for (let count = 0; count < 3; count += 1) {
    await limiter.admit({ recipientId, id: `quick-${count}` });
    expect(await redis.pttl(sent)).toBeGreaterThan(50_000);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  expect(await redis.zcard(sent)).toBe(8);
  expect(await limiter.admit({ recipientId, id: 'slow-6', ...slow })).toMatchObject({ because: 'max-wait' });
});
