import { setImmediate } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { startEmbeddedRedis } from '../../src/sandbox/redis/embedded-redis.ts';
import { newRecipient } from './case.ts';
import { copyRecipients } from './copies.ts';
import { pump } from './pump.ts';
import type { SendsOf } from './sends.ts';

/** How many recipients are filled through the limiter, and how many copies of each there are in the end. */
export interface Crowd {
  readonly originals: number;
  readonly copies: number;
}

/**
 * Bytes in Redis of a recipient with `sends` sends: keys, values, expiries and its share of the hash tables. It is the memory that
 * FLUSHALL frees in a Redis of its own, after all other clients have gone. (The growth before would also contain what Redis
 * allocates at the first use of a command.)
 */
export async function bytesPerRecipient(sendsOf: SendsOf, sends: number, crowd: Crowd): Promise<number> {
  const server = await startEmbeddedRedis();
  const observer = new Redis(server.url);
  try {
    const redis = new Redis(server.url);
    await fill(redis, sendsOf, sends, crowd).finally(() => redis.disconnect());
    await untilAlone(observer);
    const filled = await bytesInUse(observer);
    await observer.flushall('SYNC');
    return (filled - (await bytesInUse(observer))) / (crowd.originals * crowd.copies);
  } finally {
    observer.disconnect();
    await server.close();
  }
}

async function fill(redis: Redis, sendsOf: SendsOf, sends: number, { originals, copies }: Crowd): Promise<void> {
  const ids = Array.from({ length: originals }, newRecipient);
  const { send, verify } = sendsOf(redis, sends);
  await pump(sends * originals, (index) => send(ids[index % originals] ?? '', Math.floor(index / originals)));
  for (const pair of await copyRecipients(redis, ids, copies)) await verify?.(pair);
}

/** Redis frees a client's buffers once it has seen it go. */
async function untilAlone(observer: Redis): Promise<void> {
  while (fieldOf(await observer.info('clients'), 'connected_clients') > 1) await setImmediate();
}

async function bytesInUse(observer: Redis): Promise<number> {
  return fieldOf(await observer.info('memory'), 'used_memory');
}

function fieldOf(info: string, name: string): number {
  return Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1]);
}
