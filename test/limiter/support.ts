import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import type { Policy, Rule } from '../../src/domain/limits.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { categoryKeys, recipientKeys, type CategoryKeys, type ScopeKeys } from '../../src/limiter/redis/keys.ts';
import { recipientId, type LimiterFactory } from '../contract/trial.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { onClock } from '../support/redis-clock.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

/** A limiter in memory on a clock of the test's. */
export const inMemory: LimiterFactory = (policy, options) => {
  let now = Date.now();
  return {
    limiter: createMemoryLimiter({ policy, ...options, now: () => now }),
    now: () => now,
    advance: (ms) => {
      now += ms;
    },
  };
};

/** The same on Redis: ahead of its own clock, so that no key expires meanwhile. */
export const onRedis: LimiterFactory = (policy, options) => onRedisOf(connectRedis())(policy, options);

/** The same for many limiters on one connection. */
export function onRedisOf(redis: Redis): LimiterFactory {
  return (policy, options) => {
    let now = Date.now() + AHEAD_MS;
    const own = { redis: onClock(redis, () => now), policy, prefix: testPrefix() };
    return {
      limiter: createRedisLimiter({ ...own, ...options }),
      now: () => now,
      advance: (ms) => {
        now += ms;
      },
    };
  };
}

type Given<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** Without the fields that are undefined. */
export function given<T extends object>(fields: T): Given<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<T>;
}

export { recipientId };

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
  readonly heldBack: StoredSet;
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
    heldBack: 'heldBack' in keys ? await readSet(redis, keys.heldBack) : { slots: [], expiresAt: undefined },
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

/** Fails where two instants are closer than the gap, or a rolling window has more than its rule allows. */
export function expectKept(policy: Policy, instants: readonly number[]): void {
  const sorted = instants.toSorted((a, b) => a - b);
  for (const { max, perMs } of limitsOf(policy)) {
    let [first, most] = [0, 0];
    for (const [last, at] of sorted.entries()) {
      while ((sorted[first] ?? at) <= at - perMs) first += 1;
      most = Math.max(most, last - first + 1);
    }
    expect(most, `most in any ${perMs} ms`).toBeLessThanOrEqual(max);
  }
}

/** The same for the windows with `at` in them: what a limiter answers for when it admits to `at` under this policy. */
export function expectKeptAround(policy: Policy, instants: readonly number[], at: number): void {
  for (const { max, perMs } of limitsOf(policy)) {
    for (const from of instants.filter((each) => each <= at && each + perMs > at)) {
      const within = instants.filter((each) => each >= from && each < from + perMs);
      expect(within.length).toBeLessThanOrEqual(max);
    }
  }
}

function limitsOf({ rules, minGapMs }: Policy): readonly Rule[] {
  return minGapMs > 0 ? [{ max: 1, perMs: minGapMs }, ...rules] : rules;
}
