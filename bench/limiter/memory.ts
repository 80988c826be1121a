import { Redis } from 'ioredis';
import { bytesOf } from '../bytes.ts';
import { newRecipient } from './case.ts';
import { copyRecipients } from './copies.ts';
import { pump } from './pump.ts';
import type { SendsOf } from './sends.ts';

/** How many recipients are filled through the limiter, and how many copies of each there are in the end. */
export interface Crowd {
  readonly originals: number;
  readonly copies: number;
}

/** Bytes in Redis of a recipient with `sends` sends. */
export async function bytesPerRecipient(sendsOf: SendsOf, sends: number, crowd: Crowd): Promise<number> {
  const bytes = await bytesOf(async (url) => {
    const redis = new Redis(url);
    await fill(redis, sendsOf, sends, crowd).finally(() => redis.disconnect());
  });
  return bytes / (crowd.originals * crowd.copies);
}

async function fill(redis: Redis, sendsOf: SendsOf, sends: number, { originals, copies }: Crowd): Promise<void> {
  const ids = Array.from({ length: originals }, newRecipient);
  const { send, verify } = sendsOf(redis, sends);
  await pump(sends * originals, (index) => send(ids[index % originals] ?? '', Math.floor(index / originals)));
  for (const pair of await copyRecipients(redis, ids, copies)) await verify?.(pair);
}
