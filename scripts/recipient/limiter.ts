import { loadLimiterConfig, type Config } from '../../src/config/config.ts';
import { InputError } from '../../src/domain/faults.ts';
import { LimiterUnavailableError } from '../../src/limiter/errors.ts';
import type { Oversight } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis-limiter.ts';
import {
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
} from '../../src/queue/connection.ts';
import { CommandError, UsageError } from '../support/command.ts';

/** What a subcommand needs. */
export interface Desk {
  readonly limiter: Oversight;
  readonly config: Pick<Config, 'redis' | 'queue' | 'policy' | 'categories'>;
}

/** Opens the limiter that the environment names (the workers' own), runs `work`, and closes it. */
export async function atLimiter(work: (desk: Desk) => Promise<void>): Promise<void> {
  const config = loadLimiterConfig(process.env);
  const { limiterRedis, policy, categories, queue } = config;
  const redis = connectProducer(limiterRedis);
  redis.on('error', () => undefined); // the call that fails reports it
  try {
    await whenReady(redis, PRODUCER_TIMEOUT_MS);
    const limiter = createRedisLimiter({ redis, policy, categories, prefix: queue.prefix });
    await work({ limiter, config });
  } catch (error) {
    if (error instanceof InputError) throw new UsageError(error.message); // the limiter's arguments come from flags
    if (error instanceof RedisAwayError) throw new CommandError(error.message);
    if (error instanceof LimiterUnavailableError) throw new CommandError((explained(redis, error) as Error).message);
    throw error;
  } finally {
    redis.disconnect();
  }
}
