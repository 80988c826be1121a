import type { Queue } from 'bullmq';
import { loadLimiterConfig, type Config } from '../../src/config/config.ts';
import { InputError } from '../../src/domain/faults.ts';
import { NewerFormatError } from '../../src/domain/format.ts';
import type { CountedApart } from '../../src/domain/limits.ts';
import { notificationSchema } from '../../src/notification/notification.ts';
import { type Limiter, type Oversight, apartOptions } from '../../src/limiter/limiter.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { findLayout, homesOf } from '../../src/queue/shards/layout.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { readWorkers, sharedPolicy, type SharedPolicy } from '../../src/queue/workers.ts';
import {
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
  type Connection,
} from '../../src/redis/connection.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { CommandError, UsageError } from '../../src/terminal/command.ts';
import { atQueueRedis, openQueue, readEnvironment } from '../support/queue.ts';

/** Opens the queues that may have the recipient's notifications, runs `work`, and closes it. */
export async function atQueue<T>(
  { redis, queue }: Pick<Config, 'redis' | 'queue'>,
  recipientId: string,
  work: (queues: readonly Queue<unknown>[], connection: Connection) => Promise<T>,
): Promise<T> {
  return atQueueRedis(redis, async (connection) => {
    const prefixes = homesOf(recipientId, await findLayout(connection, queue));
    const queues = await Promise.all(prefixes.map((prefix) => openQueue(connection, QUEUE, prefix)));
    return work(queues, connection);
  });
}

type OpenLimiter = Oversight & Pick<Limiter, 'peek'>;

/** What a subcommand needs. */
export interface OpenLimiters {
  readonly limiter: OpenLimiter;
  /** The limiters of background pushes, and of Live Activities without an alert. */
  readonly apart: Readonly<Record<CountedApart, OpenLimiter>>;
  readonly config: Pick<Config, 'redis' | 'queue' | 'policy' | 'categories'>;
  /** How many workers have these limits; undefined: they are from this command's own variables, because no worker is alive. */
  readonly limitsOf: LimitsOf | undefined;
}

/** Living workers that have these limits, and others. */
export type LimitsOf = Pick<SharedPolicy, 'workers' | 'others'>;

/**
 * Opens the limiters that the environment names (the workers' own), runs `work`, and closes them. The limits are those of the
 * living workers, as the registry has them; if no worker is alive, those of the environment.
 */
export async function atLimiter(work: (limiters: OpenLimiters) => Promise<void>): Promise<void> {
  const own = loadLimiterConfig(readEnvironment());
  const { limiterRedis, queue } = own;
  const redis = connectProducer(limiterRedis);
  redis.on('error', () => undefined); // the call that fails reports it
  try {
    await whenReady(redis, PRODUCER_TIMEOUT_MS);
    const shared = sharedPolicy(await atQueueRedis(own.redis, (connection) => readWorkers(connection, queue.prefix)));
    const { policy, categories, quietHours, apartRules } = shared?.policy ?? own;
    const config = { redis: own.redis, queue, policy, categories };
    const limiter = createRedisLimiter({ redis, policy, categories, quietHours, prefix: queue.prefix });
    const open = (kind: CountedApart) =>
      createRedisLimiter({ redis, ...apartOptions(kind, apartRules[kind], queue.prefix) });
    await work({
      limiter,
      apart: { background: open('background'), liveactivity: open('liveactivity') },
      config,
      limitsOf: shared,
    });
  } catch (error) {
    if (error instanceof InputError) throw new UsageError(error.message); // the limiter's arguments come from flags
    if (error instanceof RedisAwayError || error instanceof NewerFormatError) throw new CommandError(error.message);
    if (error instanceof LimiterUnavailableError) throw new CommandError((explained(redis, error) as Error).message);
    throw error;
  } finally {
    redis.disconnect();
  }
}

/** Parses the argument with the recipient's id. */
export function recipientId(text: string): string {
  const checked = notificationSchema.shape.recipientId.safeParse(text);
  if (checked.success) return checked.data;
  const expected = checked.error.issues[0]?.message ?? 'a recipient';
  throw new UsageError(`ID: expected ${expected}, found ${JSON.stringify(text)}`);
}
