import type { loadLimiterConfig, RedisConfig } from '../../src/config/config.ts';
import { createProducer, type Producer } from '../../src/queue/producer.ts';
import {
  connectProducer,
  explained,
  isLasting,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
  type Connection,
} from '../../src/redis/connection.ts';
import { CommandError } from './command.ts';

/** Connects to the queue's Redis, runs `work`, and disconnects. `advice` is added to the error if Redis is lost for a while. */
export async function atQueueRedis<T>(
  redis: RedisConfig,
  work: (connection: Connection) => Promise<T>,
  advice = '',
): Promise<T> {
  const connection = connectProducer(redis);
  connection.on('error', () => undefined); // the call that fails reports it
  try {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    return await work(connection);
  } catch (error) {
    const known = explained(connection, error);
    if (!(known instanceof RedisAwayError)) throw known;
    throw new CommandError(`${known.message}${isLasting(known.trouble) ? '' : advice}`);
  } finally {
    connection.disconnect();
  }
}

/** A producer at the workers' queue and limiter. The caller closes it. */
export function openProducer({
  redis,
  limiterRedis,
  queue,
}: Pick<ReturnType<typeof loadLimiterConfig>, 'redis' | 'limiterRedis' | 'queue'>): Producer {
  const limiter = { limiterRedisUrl: limiterRedis.redisUrl, limiterSentinelName: limiterRedis.sentinel?.name };
  const hasOwn = JSON.stringify(limiterRedis) !== JSON.stringify(redis);
  return createProducer({ ...redis, ...queue, ...(hasOwn && limiter) });
}
