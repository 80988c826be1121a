import { createRequire } from 'node:module';
import type { Redis } from 'ioredis';
import type { Rivals } from '../install.ts';
import { createCase, expectAnswer, type Case } from './case.ts';
import { TURNS } from './ours.ts';

/** What is used of rolling-rate-limiter. */
export interface RollingLimiter {
  limitWithInfo(id: string): Promise<RollingInfo>;
  /** The same answer, but the action does not count. */
  wouldLimitWithInfo(id: string): Promise<RollingInfo>;
}

interface RollingInfo {
  readonly blocked: boolean;
  readonly millisecondsUntilAllowed: number;
}

interface RollingOptions {
  readonly interval: number;
  readonly maxInInterval: number;
  readonly minDifference?: number;
}

interface RollingModule {
  RedisRateLimiter: new (options: RollingOptions & { client: Redis; namespace: string }) => RollingLimiter;
  InMemoryRateLimiter: new (options: RollingOptions) => RollingLimiter & { clear(id: string): Promise<void> };
}

const PACKAGE = 'rolling-rate-limiter';

export function createRolling({ load }: Rivals, redis: Redis, options: RollingOptions): RollingLimiter {
  const { RedisRateLimiter } = load(PACKAGE) as RollingModule;
  return new RedisRateLimiter({ client: redis, namespace: 'rate-limiter', ...options });
}

/** Its own limiter in memory, and its clock: microseconds, to be replaced. */
export function rollingInMemory({ load }: Rivals, options: RollingOptions) {
  const { InMemoryRateLimiter } = load(PACKAGE) as RollingModule;
  const clock = createRequire(load.resolve(PACKAGE))('microtime') as { now: () => number };
  return { limiter: new InMemoryRateLimiter(options), clock };
}

/** One of its limiters has both a rule and a gap, so it compares with pushpacer's two rules. */
export function rollingCase(rivals: Rivals, redis: Redis): Case {
  const limiter = createRolling(rivals, redis, { interval: 60_000, maxInInterval: 10, minDifference: 1 });
  const name = `${PACKAGE}, rule and least difference`;
  return createCase({
    name,
    commands: ['multi', 'exec'],
    ...TURNS,
    async ask(recipientId) {
      const { blocked } = await limiter.limitWithInfo(recipientId);
      expectAnswer(name, 'admitted', blocked ? 'blocked' : 'admitted');
    },
  });
}
