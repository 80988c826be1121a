import type { Redis } from 'ioredis';
import { categoryKeys, recipientKeys, type CategoryKeys, type ScopeKeys } from '../../src/limiter/redis/keys.ts';

export const recipientId = 'teacher-42';

/** Keys expire by Redis's own clock: a day ahead of it, they outlive a test that moves a clock of its own. */
export const AHEAD_MS = 86_400_000;

export interface StoredSet {
  /** Members and scores, oldest first. */
  readonly slots: readonly (readonly [string, number])[];
  /** Epoch milliseconds; `undefined` where there is no such key, `-1` where it never expires. */
  readonly expiresAt: number | undefined;
}

/** The sets of one scope. */
export interface StoredScope {
  readonly sent: StoredSet;
  readonly reserved: StoredSet;
  /** Empty for the overall one. */
  readonly held: StoredSet;
}

/** What Redis keeps about the recipient's slots overall. */
export async function readRecipient(redis: Redis, prefix: string): Promise<StoredScope> {
  return readScope(redis, recipientKeys(prefix, recipientId));
}

/** All that Redis keeps about the recipient; the settings as Redis dumps them. */
export async function readEverything(redis: Redis, prefix: string, categories: readonly string[]) {
  const keys = recipientKeys(prefix, recipientId);
  const [overall, settings, settingsExpireAt, ...rest] = await Promise.all([
    readScope(redis, keys),
    redis.dump(keys.settings),
    redis.pexpiretime(keys.settings),
    ...categories.map((category) => readScope(redis, categoryKeys(keys, category))),
  ]);
  const ofCategories = new Map(categories.map((category, index) => [category, rest[index]]));
  return { overall, settings, settingsExpireAt, ofCategories };
}
export type Everything = Awaited<ReturnType<typeof readEverything>>;

async function readScope(redis: Redis, keys: ScopeKeys | CategoryKeys): Promise<StoredScope> {
  const [sent, reserved] = [await readSet(redis, keys.sent), await readSet(redis, keys.reserved)];
  return {
    sent,
    reserved,
    held: 'heldBack' in keys ? await readSet(redis, keys.heldBack) : { slots: [], expiresAt: undefined },
  };
}

async function readSet(redis: Redis, key: string): Promise<StoredSet> {
  const [entries, expiry] = await Promise.all([redis.zrange(key, '0', '-1', 'WITHSCORES'), redis.pexpiretime(key)]);
  const slots: [string, number][] = [];
  for (let index = 0; index < entries.length; index += 2) {
    slots.push([String(entries[index]), Number(entries[index + 1])]);
  }
  if (slots.length === 0) return { slots, expiresAt: undefined };
  return { slots, expiresAt: expiry === -2 ? undefined : expiry };
}
