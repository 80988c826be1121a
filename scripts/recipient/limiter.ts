import { loadLimiterConfig, type Config } from '../../src/config/config.ts';
import { InputError } from '../../src/domain/faults.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import type { Oversight } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import {
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
} from '../../src/redis/connection.ts';
import { CommandError, UsageError } from '../support/command.ts';

/** What a subcommand works with. */
export interface Desk {
  readonly limiter: Oversight;
  readonly config: Pick<Config, 'redis' | 'queue' | 'policy' | 'categories'>;
}

/** Does the work at the limiter that the workers use, told by the same environment, and closes it. */
export async function atLimiter(work: (desk: Desk) => Promise<void>): Promise<void> {
  const config = loadLimiterConfig(process.env);
  const { limiterRedis, policy, categories, queue } = config;
  const redis = connectProducer(limiterRedis);
  redis.on('error', () => undefined); // the call that fails tells it
  try {
    await whenReady(redis, PRODUCER_TIMEOUT_MS);
    const limiter = createRedisLimiter({ redis, policy, categories, prefix: queue.prefix });
    await work({ limiter, config });
  } catch (error) {
    if (error instanceof InputError) throw new UsageError(error.message); // what the limiter was told came from flags
    if (error instanceof RedisAwayError) throw new CommandError(error.message);
    if (error instanceof LimiterUnavailableError) throw new CommandError((explained(redis, error) as Error).message);
    throw error;
  } finally {
    redis.disconnect();
  }
}
