import { expect, test } from 'vitest';
import { createCancellationIndex } from '../../src/queue/cancellation-index.ts';
import { newLayout } from '../../src/queue/shards/layout.ts';
import { cancellationIndexKey, shardOf, shardPrefixes } from '../../src/queue/names.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

const DAY_MS = 86_400_000;
const place = { recipientId: 'teacher-42', cancellationKey: 'trip-77' };

function open(shards = 1) {
  const redis = connectRedis();
  const prefix = testPrefix();
  const shard = shardPrefixes(prefix, shards)[shardOf(place.recipientId, shards)] ?? '';
  const key = cancellationIndexKey(shard, place.recipientId, place.cancellationKey);
  return { redis, key, index: createCancellationIndex(redis, () => newLayout({ prefix, shards })) };
}

test.each([1, 3])('the key expires with its last id, whatever order they are noted in (%i shards)', async (shards) => {
  const { redis, key, index } = open(shards);
  await index.waits(place, 'next-year', 300 * DAY_MS);
  await index.waits(place, 'now', 0);
  await index.ended(place, 'canceled', true);
  expect(await redis.zrange(key, '0', '-1')).toEqual(['canceled', 'now', 'next-year']);
  expect(await redis.pttl(key)).toBeGreaterThan(300 * DAY_MS);
  await index.ended(place, 'next-year', false);
  expect(await redis.pttl(key)).toBeLessThan(401 * DAY_MS);
  expect(await redis.pttl(key)).toBeGreaterThan(390 * DAY_MS); // also where a block of a year comes after the last pass
  await index.ended(place, 'now', false);
  expect(await redis.pttl(key)).toBeLessThan(3_600_001);
  await index.ended(place, 'canceled', false);
  expect(await redis.exists(key)).toBe(0);
});

test('keeps 1,000 ids, and drops those that were to end first', async () => {
  const { redis, key, index } = open();
  await Promise.all(Array.from({ length: 1_002 }, (_, n) => index.waits(place, `job-${n}`, n * 60_000)));
  const ids = await redis.zrange(key, '0', '-1');
  expect(ids).toHaveLength(1_000);
  expect(ids[0]).toBe('job-2');
});

test('no two pairs of a recipient and a key share an index', () => {
  expect(cancellationIndexKey('{p}', 'a:b', 'c')).not.toBe(cancellationIndexKey('{p}', 'a', 'b:c'));
});
