import { createCanceller as canceller } from '../../src/limiter/redis/canceller.ts';
import {
  createRedisLimiter as redisLimiter,
  createWaitingLimiter as waitingLimiter,
} from '../../src/limiter/redis/redis-limiter.ts';

// The limiters of the product, where their timeout is not the subject: the default of 2 s passes on a machine that stands still.

const PATIENT = { timeoutMs: 60_000 };

export const createRedisLimiter: typeof redisLimiter = (options) => redisLimiter({ ...PATIENT, ...options });
export const createWaitingLimiter: typeof waitingLimiter = (options) => waitingLimiter({ ...PATIENT, ...options });
export const createCanceller: typeof canceller = (options) => canceller({ ...PATIENT, ...options });
