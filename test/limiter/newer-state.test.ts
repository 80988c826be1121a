import { expect, it } from 'vitest';
import { NewerFormatError } from '../../src/domain/format.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { httpLimit } from '../../src/http/limit.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { readStored } from '../support/stored.ts';

const POLICY = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 1_000 };
const recipientId = 'teacher-42';

async function openWithNewerState() {
  const redis = connectRedis();
  const prefix = testPrefix();
  const options = { redis, policy: POLICY, categories: { messages: POLICY }, prefix };
  const limiter = createRedisLimiter(options);
  const { settings } = recipientKeys(prefix, recipientId);
  await limiter.admit({ recipientId, id: 'before' });
  await limiter.admit({ recipientId, id: 'waits' });
  await redis.hset(settings, { format: '2', policy: 'not what this version would write' });
  return { limiter, options, redis, settings, stored: () => readStored(redis, prefix) };
}

it('of a recipient is neither read nor changed: whoever asks is told', async () => {
  const { limiter, stored } = await openWithNewerState();
  const before = await stored();
  expect(Object.keys(before)).toHaveLength(3);
  const asks = {
    admit: () => limiter.admit({ recipientId, id: 'a' }),
    'admit in a category': () => limiter.admit({ recipientId, id: 'a', category: 'messages' }),
    'admit of one that waits': () => limiter.admit({ recipientId, id: 'waits' }),
    peek: () => limiter.peek({ recipientId, id: 'a' }),
    inspect: () => limiter.inspect(recipientId),
    limit: () => limiter.limit(recipientId, POLICY),
    unlimit: () => limiter.unlimit(recipientId),
    block: () => limiter.block(recipientId, { until: Date.now() + 60_000, reason: 'on leave' }),
    unblock: () => limiter.unblock(recipientId),
    unquiet: () => limiter.unquiet(recipientId),
  };
  for (const [name, ask] of Object.entries(asks)) {
    const error: unknown = await ask().catch((thrown: unknown) => thrown);
    expect(error, name).toBeInstanceOf(NewerFormatError);
    expect((error as Error).message, name).toContain('limiter state in format 2; this version reads format 1');
  }
  expect(await stored()).toEqual(before);
});

it('of another recipient changes nothing, nor does a format that is known', async () => {
  const { limiter, redis, settings } = await openWithNewerState();
  expect(await limiter.admit({ recipientId: 'somebody else', id: 'a' })).toMatchObject({ kind: 'admitted' });
  await redis.del(settings);
  await redis.hset(settings, 'format', '1');
  expect(await limiter.admit({ recipientId, id: 'a' })).toMatchObject({ kind: 'reserved' });
});

it('is no outage: a limiter that may go on without Redis does not, and HTTP clients get a 503', async () => {
  const { options } = await openWithNewerState();
  const outages: boolean[] = [];
  const onOutage = (isAway: boolean) => void outages.push(isAway);
  const limiter = createRedisLimiter({ ...options, onUnavailable: 'open', onOutage });
  await expect(limiter.admit({ recipientId, id: 'a' })).rejects.toThrow(NewerFormatError);
  expect(outages).toEqual([]);
  const decide = httpLimit({ limiter, key: () => recipientId });
  expect(await decide({}, new AbortController().signal)).toMatchObject({ kind: 'refused', status: 503 });
});
