import { Queue } from 'bullmq';
import type { CancelTarget } from '../src/domain/cancel-target.ts';
import type { Notification } from '../src/domain/notification.ts';
import { countedAs } from '../src/domain/limits.ts';
import { forEachKind } from '../src/limiter/limiter.ts';
import { createCanceledLook, createCanceller } from '../src/limiter/redis/canceller.ts';
import { cancelWaiting, type Canceled } from '../src/queue/cancel.ts';
import { QUEUE, shardPrefixes } from '../src/queue/names.ts';
import type { Connection } from '../src/redis/connection.ts';
import { LIMITER_TIMEOUT_MS } from './redis.ts';

export interface Cancelling {
  /** Cancels what waits: for jobs named `cancel`. */
  cancel(target: CancelTarget): Promise<Canceled>;
  /** Whether a notification was canceled. */
  isCanceled(pass: { readonly notification: Notification; readonly jobId: string }): Promise<boolean>;
}

interface CancellingOptions {
  readonly redis: Connection;
  readonly limiterRedis: Connection;
  readonly prefix: string;
  readonly shards: number;
}

/** All limiters, and the queues of all shards. `closing` closes the queues. */
export function createCancelling(
  { redis, limiterRedis, prefix, shards }: CancellingOptions,
  closing: AsyncDisposableStack,
): Cancelling {
  const limiter = { redis: limiterRedis, timeoutMs: LIMITER_TIMEOUT_MS };
  const deciders = forEachKind(prefix, (of) => createCanceller({ ...limiter, prefix: of }));
  const looks = forEachKind(prefix, (of) => createCanceledLook({ ...limiter, prefix: of }));
  const queues = shardPrefixes(prefix, shards).map((shardPrefix) => {
    const queue = new Queue(QUEUE, { connection: redis, prefix: shardPrefix, skipMetasUpdate: true });
    queue.on('error', () => undefined); // the worker logs it
    closing.defer(() => queue.close());
    return queue;
  });
  return {
    cancel: (target) => cancelWaiting(target, { connection: redis, queues, deciders }),
    isCanceled: ({ notification, jobId }) => looks[countedAs(notification)](notification.recipientId, jobId),
  };
}
