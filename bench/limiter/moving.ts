import type { Redis } from 'ioredis';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { newRecipient } from './case.ts';
import { pump } from './pump.ts';

/** The cost of moving all reservations of one recipient. */
export interface Moving {
  readonly waiting: number;
  /** The longest script, and all of them together, by SLOWLOG. */
  readonly longestMs: number;
  readonly togetherMs: number;
  /** From the call to the answer. */
  readonly seconds: number;
}

/** Blocks a recipient with `waiting` reservations, and ends the block: each of them moves twice. */
export async function measureMoving(redis: Redis, waiting: number): Promise<Moving> {
  const limiter = createRedisLimiter({ redis, policy: { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 2_000 } });
  const recipientId = newRecipient();
  await pump(waiting + 1, async (index) => {
    await limiter.admit({ recipientId, id: `msg-${recipientId}-${index}` });
  });
  await redis.config('SET', 'slowlog-log-slower-than', '0');
  await redis.config('SET', 'slowlog-max-len', '100000');
  await redis.slowlog('RESET');
  const start = performance.now();
  await limiter.block(recipientId, { until: Date.now() + 86_400_000, reason: 'bench' });
  await limiter.unblock(recipientId);
  const seconds = (performance.now() - start) / 1_000;
  const log = (await redis.slowlog('GET', 100_000)) as [id: number, at: number, micros: number, command: string[]][];
  await redis.config('SET', 'slowlog-log-slower-than', '10000');
  const micros = log.filter(([, , , [command = '']]) => /^evalsha?$/i.test(command)).map(([, , each]) => each);
  if (micros.length === 0) throw new Error('expected scripts that move those that wait, found none');
  const together = micros.reduce((sum, each) => sum + each, 0);
  return { waiting, longestMs: Math.max(...micros) / 1_000, togetherMs: together / 1_000, seconds };
}
