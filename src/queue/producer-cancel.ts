import type { Job, Queue } from 'bullmq';
import { countedAs } from '../domain/counted-as.ts';
import { parseCancelTarget, type CancelTarget } from '../domain/cancel-target.ts';
import { InputError } from '../domain/faults.ts';
import { forEachKind, limiterPrefix } from '../limiter/apart.ts';
import { countBefore, createCanceller } from '../limiter/redis/canceller.ts';
import { connectProducer, explained, RedisAwayError, whenReady, type Connection } from '../redis/connection.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { addressOf } from '../redis/target.ts';
import { cancelWaiting, type Canceled, type CancelParts } from './cancel.ts';
import { limiterTarget, type ProducerOptions } from './producer-options.ts';

interface ProducerCancel {
  cancel(target: CancelTarget): Promise<Canceled>;
  /** How many are before this job in its line. Undefined if it waits in none, or the limiter does not answer. */
  before(job: Job<unknown>): Promise<number | undefined>;
  /** Closes the limiter's connection, if there is one. */
  close(): void;
}

interface ProducerCancelParts {
  /** Throws once the producer was closed. */
  readonly assertOpen: () => void;
  readonly connection: Connection;
  /** The queues of all shards. */
  readonly open: () => Promise<readonly Queue[]>;
  readonly prefix: string;
  readonly options: ProducerOptions;
  readonly timeoutMs: number;
}

/** What a producer asks the limiter. It connects to a limiter of its own at the first call. */
export function createProducerCancel(parts: ProducerCancelParts): ProducerCancel {
  const { assertOpen, connection, open, prefix, options, timeoutMs } = parts;
  const target = limiterTarget(options);
  let limiter: Connection | undefined;
  let deciders: CancelParts['deciders'] | undefined;

  function limiterConnection(): Connection {
    if (target === undefined) return connection;
    limiter ??= connectProducer(target, timeoutMs).on('error', () => undefined); // the call reports it
    return limiter;
  }

  function decidersOf(redis: Connection): CancelParts['deciders'] {
    const decider = (ofKind: string) => createCanceller({ redis, prefix: ofKind, timeoutMs });
    return (deciders ??= forEachKind(prefix, decider));
  }

  return {
    async cancel(given) {
      const parsed = parseCancelTarget(given);
      if (!parsed.ok) throw new InputError('unusable cancel', parsed.faults);
      assertOpen();
      const redis = limiterConnection();
      await Promise.all([whenReady(connection, timeoutMs), whenReady(redis, timeoutMs)]);
      try {
        return await cancelWaiting(parsed.target, { connection, queues: await open(), deciders: decidersOf(redis) });
      } catch (error) {
        if (error instanceof LimiterUnavailableError) throw new RedisAwayError(addressOf(redis), error.cause ?? error);
        throw explained(connection, error);
      }
    },
    async before({ id: jobId = '', data, progress }) {
      const { recipientId, category } = (data ?? {}) as Readonly<Record<string, unknown>>;
      if (typeof recipientId !== 'string') return undefined;
      const { asks = 0 } = progress as { readonly asks?: number };
      const held = { recipientId, id: `${jobId}/${asks}`, ...(typeof category === 'string' && { category }) };
      try {
        const redis = limiterConnection();
        await whenReady(redis, timeoutMs);
        return await countBefore(redis, limiterPrefix(countedAs(data as object), prefix), held);
      } catch {
        return undefined; // all else that is known is told
      }
    },
    close: () => limiter?.disconnect(),
  };
}
