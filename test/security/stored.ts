import type { Redis } from 'ioredis';
import { invalidTokensKey } from '../../src/queue/outcomes.ts';

/**
 * Every text that Redis holds, names of keys included, but for where secrets belong: the data of jobs, the notification of
 * a dead letter, and the stream of invalid tokens.
 */
export async function storedTexts(redis: Redis, prefix: string): Promise<string[]> {
  const keys = (await redis.keys('*')).filter((key) => key !== invalidTokensKey(prefix));
  // A worker goes on meanwhile, and a key may be gone, or another one, between the two questions.
  const values = await Promise.all(keys.map((key) => textsOf(redis, key).catch(() => textsOf(redis, key))));
  return [...keys, ...values.flat()];
}

async function textsOf(redis: Redis, key: string): Promise<string[]> {
  switch (await redis.type(key)) {
    case 'hash': {
      const { data, ...fields } = await redis.hgetall(key);
      return [...Object.entries(fields).flat(), withoutNotification(data)];
    }
    case 'zset':
      return redis.zrange(key, '0', '-1');
    case 'list':
      return redis.lrange(key, 0, -1);
    case 'set':
      return redis.smembers(key);
    case 'stream':
      return (await redis.xrange(key, '-', '+')).flat(2);
    default:
      return [(await redis.get(key)) ?? ''];
  }
}

/** What a dead letter says of its notification. Other jobs' data is the notification itself. */
function withoutNotification(data = '{}'): string {
  const value: unknown = JSON.parse(data);
  const isDeadLetter = typeof value === 'object' && value !== null && 'deadAt' in value && 'notification' in value;
  return isDeadLetter ? JSON.stringify({ ...value, notification: undefined }) : '';
}
