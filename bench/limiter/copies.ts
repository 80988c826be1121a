import type { Redis } from 'ioredis';
import { newRecipient } from './case.ts';
import { pump } from './pump.ts';

/** A key by DUMP: its encoded value and its remaining time. */
interface Dumped {
  readonly key: string;
  readonly value: Buffer;
  readonly ttlMs: number;
}

/** A recipient that a limiter has filled, and a copy of it. */
export interface CopiedPair {
  readonly original: string;
  readonly copy: string;
}

/**
 * Copies every key of each recipient, as it is, for other recipients, until there are `times` of each: much quicker than
 * asking the limiter for them. Gives a pair of each original; rejects where a copy's keys differ in size or encoding.
 */
export async function copyRecipients(redis: Redis, ids: readonly string[], times: number): Promise<CopiedPair[]> {
  const keysBefore = await redis.dbsize();
  const dumps = await Promise.all(ids.map((id) => dump(redis, id))); // before there are many keys to look through
  const pairs: CopiedPair[] = [];
  for (const [number, original] of ids.entries()) {
    const names = Array.from({ length: times - 1 }, newRecipient);
    await pump(names.length, (index) => restore(redis, dumps[number] ?? [], original, names[index] ?? ''));
    pairs.push({ original, copy: names.at(-1) ?? original });
  }
  const keysAfter = await redis.dbsize();
  expectSame('number of keys', keysBefore * times, keysAfter);
  for (const [number, { original, copy }] of pairs.entries()) {
    const keys = (dumps[number] ?? []).map(({ key }) => key);
    const copies = keys.map((key) => key.replace(original, copy));
    expectSame('size and encoding', await shapes(redis, keys), await shapes(redis, copies));
  }
  return pairs;
}

export function expectSame(what: string, original: unknown, copy: unknown): void {
  const [expected, found] = [JSON.stringify(original), JSON.stringify(copy)];
  if (expected !== found) throw new Error(`${what} of copies: expected ${expected}, found ${found}`);
}

async function dump(redis: Redis, recipientId: string): Promise<Dumped[]> {
  const keys = await redis.keys(`*${recipientId}*`);
  return Promise.all(
    keys.map(async (key) => ({ key, value: await redis.dumpBuffer(key), ttlMs: await redis.pttl(key) })),
  );
}

async function restore(redis: Redis, dumped: readonly Dumped[], original: string, copy: string): Promise<void> {
  await Promise.all(dumped.map(({ key, value, ttlMs }) => redis.restore(key.replace(original, copy), ttlMs, value)));
}

async function shapes(redis: Redis, keys: readonly string[]): Promise<unknown[]> {
  return Promise.all(keys.map((key) => Promise.all([redis.memory('USAGE', key), redis.object('ENCODING', key)])));
}
