import type { Redis } from 'ioredis';

interface Stored {
  readonly type: string;
  readonly content: unknown;
  /** Epoch milliseconds; -1: never. */
  readonly expiresAt: number;
}

/** Everything in Redis under this prefix, and when it expires: equal before and after what writes nothing. */
export async function readStored(redis: Redis, prefix: string): Promise<Record<string, Stored>> {
  const keys = (await redis.keys(`*${prefix.replaceAll(/[{}]/g, '')}*`)).sort();
  const read = async (key: string): Promise<[string, Stored]> => {
    const type = await redis.type(key);
    return [key, { type, content: await contentOf(redis, key, type), expiresAt: await redis.pexpiretime(key) }];
  };
  return Object.fromEntries(await Promise.all(keys.map(read)));
}

/** The content of a key of this type. */
export function contentOf(redis: Redis, key: string, type: string): Promise<unknown> {
  switch (type) {
    case 'hash':
      return redis.hgetall(key);
    case 'zset':
      return redis.zrange(key, '0', '-1', 'WITHSCORES');
    case 'list':
      return redis.lrange(key, 0, -1);
    case 'set':
      return redis.smembers(key).then((members) => members.sort());
    case 'stream':
      return redis.xrange(key, '-', '+');
    default:
      return redis.get(key);
  }
}
