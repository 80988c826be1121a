import type { Redis } from 'ioredis';
import { recipientKeys } from '../../src/limiter/keys.ts';

export const recipientId = 'teacher-42';

/** Keys expire by Redis's own clock: a day ahead of it, they outlive a test that moves a clock of its own. */
export const AHEAD_MS = 86_400_000;

export interface StoredSet {
  /** Members and scores, oldest first. */
  readonly slots: readonly (readonly [string, number])[];
  /** Epoch milliseconds; `undefined` where there is no such key, `-1` where it never expires. */
  readonly expiresAt: number | undefined;
}

/** All that Redis keeps about the recipient. */
export async function readRecipient(redis: Redis, prefix: string): Promise<{ sent: StoredSet; reserved: StoredSet }> {
  const { sent, reserved } = recipientKeys(prefix, recipientId);
  return { sent: await readSet(redis, sent), reserved: await readSet(redis, reserved) };
}

async function readSet(redis: Redis, key: string): Promise<StoredSet> {
  const [entries, expiry] = await Promise.all([redis.zrange(key, '0', '-1', 'WITHSCORES'), redis.pexpiretime(key)]);
  const slots: [string, number][] = [];
  for (let index = 0; index < entries.length; index += 2) {
    slots.push([String(entries[index]), Number(entries[index + 1])]);
  }
  return { slots, expiresAt: expiry === -2 ? undefined : expiry };
}
