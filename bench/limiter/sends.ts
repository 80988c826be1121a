import type { Redis } from 'ioredis';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import type { Rivals } from '../install.ts';
import { expectSame, type CopiedPair } from './copies.ts';
import { createFlexible } from './flexible.ts';
import { createRolling } from './rolling.ts';

const WINDOW_MS = 3_600_000;

/** Fills a recipient with as many sends as a rule of `sends` an hour allows, to measure their memory. */
export interface Sends {
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
  const limiter = createRedisLimiter({ redis, policy, now: () => clockMs });
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
      const { blocked } = await limiter.limitWithInfo(recipientId);
      expectSent(!blocked);
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
