import { setImmediate } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { startEmbeddedRedis } from '../sandbox/redis/embedded-redis.ts';

/**
 * Bytes in Redis of what `fill` writes: keys, values, expiries and their share of the hash tables. It is the memory that FLUSHALL
 * frees in a Redis of its own, after all other clients have gone. (The growth before would also contain what Redis allocates at the
 * first use of a command.)
 */
export async function bytesOf(fill: (url: string) => Promise<void>): Promise<number> {
  const server = await startEmbeddedRedis();
  const observer = new Redis(server.url);
  try {
    await fill(server.url);
    await untilAlone(observer);
    const filled = await bytesInUse(observer);
    await observer.flushall('SYNC');
    return filled - (await bytesInUse(observer));
  } finally {
    observer.disconnect();
    await server.close();
  }
}

/** Redis frees a client's buffers once it has seen it go. */
async function untilAlone(observer: Redis): Promise<void> {
  while ((await clientsOf(observer)) > 1) await setImmediate();
}

/** How many connections this Redis has. */
export async function clientsOf(redis: Redis): Promise<number> {
  return fieldOf(await redis.info('clients'), 'connected_clients');
}

async function bytesInUse(observer: Redis): Promise<number> {
  return fieldOf(await observer.info('memory'), 'used_memory');
}

/** A number of `INFO`. */
export function fieldOf(info: string, name: string): number {
  return Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
}
