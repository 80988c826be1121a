import type { Redis } from 'ioredis';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { onClock } from '../../test/support/redis-clock.ts';
import { bytesOf, withClient } from '../redis.ts';
import { createFlexible, createRolling, type Rivals } from '../rivals.ts';
import { newRecipient, pump } from './cases.ts';

/** How many recipients are filled through the limiter, and how many copies of each there are in the end. */
export interface Crowd {
  readonly originals: number;
  readonly copies: number;
}

/** Bytes in Redis of a recipient with `sends` sends. */
export async function bytesPerRecipient(sendsOf: SendsOf, sends: number, crowd: Crowd): Promise<number> {
  const { originals, copies } = crowd;
  const bytes = await bytesOf((url) =>
    withClient(url, async (redis) => {
      const ids = Array.from({ length: originals }, newRecipient);
      const { send, verify } = sendsOf(redis, sends);
      await pump(sends * originals, (index) => send(ids[index % originals] ?? '', Math.floor(index / originals)));
      for (const pair of await copyRecipients(redis, ids, copies)) await verify?.(pair);
    }),
  );
  return bytes / (originals * copies);
}

const WINDOW_MS = 3_600_000;

/** Fills a recipient with as many sends as a rule of `sends` an hour allows, to measure their memory. */
interface Sends {
  /** The sends of a recipient come in order; `step` counts them from 0. */
  readonly send: (recipientId: string, step: number) => Promise<void>;
  /** Rejects if the limiter answers differently for a copied recipient. */
  readonly verify?: (pair: CopiedPair) => Promise<void>;
}

/** Makes the limiter to measure, on a connection of its own. */
export type SendsOf = (redis: Redis, sends: number) => Sends;

/** With a gap. The sends are spread over the hour, on a clock of the bench's. */
export function ourSends(redis: Redis, sends: number): Sends {
  const start = Date.now();
  let clockMs = start;
  const policy = { rules: [{ max: sends, perMs: WINDOW_MS }], minGapMs: 1 };
  const limiter = createRedisLimiter({ redis: onClock(redis, () => clockMs), policy });
  return {
    async send(recipientId, step) {
      clockMs = start + Math.floor((step * WINDOW_MS) / sends);
      const { kind } = await limiter.admit({ recipientId, id: `msg-${recipientId}-${step}` });
      expectSent(kind === 'admitted');
    },
    async verify({ original, copy }) {
      const [answer, sameAnswer] = await Promise.all(
        [original, copy].map((recipientId) => limiter.peek({ recipientId, id: 'one-more' })),
      );
      expectSame('answer', answer, sameAnswer);
    },
  };
}

/** With a least difference, which takes no memory of its own. */
export function rollingSends(rivals: Rivals, redis: Redis, sends: number): Sends {
  const limiter = createRolling(rivals, redis, { interval: WINDOW_MS, maxInInterval: sends });
  return {
    async send(recipientId) {
      expectSent(!(await limiter.limitWithInfo(recipientId)).blocked);
    },
  };
}

/** One counter, whatever the number of sends. */
export function flexibleSends(rivals: Rivals, redis: Redis, sends: number): Sends {
  const limiter = createFlexible(rivals, redis, { points: sends, duration: WINDOW_MS / 1_000, keyPrefix: 'hour' });
  return {
    async send(recipientId) {
      await limiter.consume(recipientId);
    },
  };
}

function expectSent(isSent: boolean): void {
  if (!isSent) throw new Error('expected every send to be allowed, found one that was not');
}

/** A recipient that a limiter has filled, and a copy of it. */
interface CopiedPair {
  readonly original: string;
  readonly copy: string;
}

/**
 * Copies every key of each recipient, as it is, for other recipients, until there are `times` of each: much quicker than
 * asking the limiter for them. Gives a pair of each original; rejects where a copy's keys differ in size or encoding.
 */
async function copyRecipients(redis: Redis, ids: readonly string[], times: number): Promise<CopiedPair[]> {
  const keysBefore = await redis.dbsize();
  const dumps = await Promise.all(ids.map((id) => dump(redis, id))); // before there are many keys to look through
  const pairs: CopiedPair[] = [];
  for (const [number, original] of ids.entries()) {
    const names = Array.from({ length: times - 1 }, newRecipient);
    await pump(names.length, (index) => restore(redis, dumps[number] ?? [], original, names[index] ?? ''));
    pairs.push({ original, copy: names.at(-1) ?? original });
  }
  expectSame('number of keys', keysBefore * times, await redis.dbsize());
  for (const [number, { original, copy }] of pairs.entries()) {
    const keys = (dumps[number] ?? []).map(({ key }) => key);
    const copies = keys.map((key) => key.replace(original, copy));
    expectSame('size and encoding', await shapes(redis, keys), await shapes(redis, copies));
  }
  return pairs;
}

function expectSame(what: string, original: unknown, copy: unknown): void {
  const [expected, found] = [JSON.stringify(original), JSON.stringify(copy)];
  if (expected !== found) throw new Error(`${what} of copies: expected ${expected}, found ${found}`);
}

/** A key by DUMP: its encoded value and its remaining time. */
interface Dumped {
  readonly key: string;
  readonly value: Buffer;
  readonly ttlMs: number;
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
