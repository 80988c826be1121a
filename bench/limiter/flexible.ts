import type { Redis } from 'ioredis';
import type { Rivals } from '../install.ts';
import { createCase, expectAnswer, type Case } from './case.ts';
import { TURNS } from './ours.ts';

/** What is used of rate-limiter-flexible: a refusal is a rejection with the wait in it. */
export interface FlexibleLimiter {
  consume(key: string): Promise<unknown>;
}

interface FlexibleOptions {
  readonly points: number;
  /** Whole seconds. */
  readonly duration: number;
  readonly keyPrefix: string;
}

interface FlexibleModule {
  RateLimiterRedis: new (options: FlexibleOptions & { storeClient: Redis }) => FlexibleLimiter;
  RateLimiterMemory: new (options: FlexibleOptions) => FlexibleLimiter;
  RateLimiterUnion: new (...limiters: FlexibleLimiter[]) => FlexibleLimiter;
}

const PACKAGE = 'rate-limiter-flexible';
const TEN_A_MINUTE: FlexibleOptions = { points: 10, duration: 60, keyPrefix: 'minute' };
const HUNDRED_AN_HOUR: FlexibleOptions = { points: 100, duration: 3_600, keyPrefix: 'hour' };
const GAP_OF_TWO_SECONDS: FlexibleOptions = { points: 1, duration: 2, keyPrefix: 'gap' };

export function createFlexible({ load }: Rivals, redis: Redis, options: FlexibleOptions): FlexibleLimiter {
  const { RateLimiterRedis } = load(PACKAGE) as FlexibleModule;
  return new RateLimiterRedis({ storeClient: redis, ...options });
}

/** Its own limiters in memory: ten a minute, and one in two seconds. */
export function flexibleInMemory({ load }: Rivals): FlexibleLimiter {
  const { RateLimiterMemory, RateLimiterUnion } = load(PACKAGE) as FlexibleModule;
  return new RateLimiterUnion(new RateLimiterMemory(TEN_A_MINUTE), new RateLimiterMemory(GAP_OF_TWO_SECONDS));
}

export function flexibleSingleCase(rivals: Rivals, redis: Redis): Case {
  return consuming(`${PACKAGE}, one rule (fixed window)`, createFlexible(rivals, redis, TEN_A_MINUTE));
}

/** A rule a limiter: two are a union, which asks both. */
export function flexibleUnionCase(rivals: Rivals, redis: Redis): Case {
  const { RateLimiterUnion } = rivals.load(PACKAGE) as FlexibleModule;
  const limiters = [TEN_A_MINUTE, HUNDRED_AN_HOUR].map((options) => createFlexible(rivals, redis, options));
  return consuming(`${PACKAGE}, union of two rules (fixed windows)`, new RateLimiterUnion(...limiters));
}

function consuming(name: string, limiter: FlexibleLimiter): Case {
  return createCase({
    name,
    commands: ['evalsha'],
    ...TURNS,
    async ask(recipientId) {
      const answer = await limiter.consume(recipientId).then(
        () => 'admitted',
        (refusal: unknown) => (refusal instanceof Error ? refusal.message : 'refused'),
      );
      expectAnswer(name, 'admitted', answer);
    },
  });
}
