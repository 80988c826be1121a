import type { Redis } from 'ioredis';
import type { Ending, Join, WaitingAsk } from '../../src/limiter/limiter.ts';
import { createCanceller, createWaitingLimiter } from '../support/limiters.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { AHEAD_MS, readRecipient, recipientId } from './support.ts';

export const DAY_MS = 86_400_000;
const POLICY = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 3_000 };
const MESSAGES = { rules: [{ max: 2, perMs: 60_000 }], minGapMs: 0 };

/** A limiter of one recipient's notifications, and a canceller, on a clock of the test's. */
export function open(server: Redis = connectRedis()) {
  const clock = { now: Date.now() + AHEAD_MS };
  const start = clock.now;
  const redis = onClock(server, () => clock.now);
  const prefix = testPrefix();
  const limiter = createWaitingLimiter({ redis, policy: POLICY, categories: { messages: MESSAGES }, prefix });
  const canceller = createCanceller({ redis, prefix });
  const ask = (name: string, more: Partial<WaitingAsk> = {}) =>
    limiter.admit({ recipientId, id: `${name}/0`, ...more });
  const cancel = (name: string, enqueuedAt = 0) => canceller.cancel({ recipientId, id: `${name}/0`, enqueuedAt });
  const release = (name: string, more: Partial<Ending> = {}) =>
    limiter.release({ recipientId, id: `${name}/0`, enqueuedAt: 0, how: 'ended', ...more });
  const forget = (name: string, enqueuedAt = 0) => limiter.forget({ recipientId, id: `${name}/0`, enqueuedAt });
  const block = (ms: number) => limiter.block(recipientId, { until: clock.now + ms, reason: 'a trip' });
  const join = (kind: Join['kind'], more: Partial<Join> = {}): { join: Join } => ({
    join: { kind, key: 'thread', at: clock.now, max: 100, ...more },
  });
  const reserved = async () => (await readRecipient(redis, prefix)).reserved.slots.map(([id]) => id);
  return { redis, prefix, clock, start, limiter, ask, cancel, release, forget, block, join, reserved };
}
