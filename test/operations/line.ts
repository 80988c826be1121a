import { Queue } from 'bullmq';
import { onTestFinished } from 'vitest';
import { COUNTED_APART, type CategoryPolicy, type CountedAs, type Policy } from '../../src/domain/limits.ts';
import type { CancelTarget, NotificationInput } from '../../src/notification/notification.ts';
import { apartOptions, type Limiter } from '../../src/limiter/limiter.ts';
import { createForesight, type Foresight } from '../../src/limiter/redis/foresight.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { dueAtOfScore } from '../../src/queue/bullmq-internals.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { makeNotification } from '../support/push.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { readStored } from '../support/stored.ts';

export const HOUR = 3_600_000;

/** A queue without workers, and the limiters at its prefix. Notifications wait in it as a worker would have put them back. */
export async function openLine(policy: Policy, categories: Readonly<Record<string, CategoryPolicy>> = {}) {
  const [connection, prefix] = [connectRedis(), testPrefix()];
  const producer = createProducer({ connection, prefix });
  const queue = new Queue<unknown>(QUEUE, { connection, prefix, skipMetasUpdate: true });
  onTestFinished(() => producer.close());
  await queue.waitUntilReady();
  const optionsOf = (kind: CountedAs) =>
    kind === 'alert' ? { policy, categories, prefix } : apartOptions(kind, [{ max: 1, perMs: HOUR }], prefix);
  const forEach = <T>(create: (options: ReturnType<typeof optionsOf> & { redis: typeof connection }) => T) => {
    const of = (kind: CountedAs): T => create({ redis: connection, ...optionsOf(kind) });
    const [background, liveactivity] = COUNTED_APART;
    return { alert: of('alert'), [background]: of(background), [liveactivity]: of(liveactivity) };
  };
  const limiters: Readonly<Record<CountedAs, Limiter>> = forEach(createRedisLimiter);
  const foresights: Readonly<Record<CountedAs, Foresight>> = forEach(createForesight);

  /** Enqueues them, and reserves their slots; the first of a recipient is sent where the limits allow it. */
  async function wait(kind: CountedAs, ...fields: readonly (Partial<NotificationInput> & { id: string })[]) {
    for (const each of fields) {
      const notification = makeNotification({ sendAfter: Date.now() + HOUR, ...each });
      await producer.enqueue(notification);
      const { recipientId, category } = notification;
      const named = category !== undefined && { category };
      await limiters[kind].admit({ recipientId, id: `${notification.id}/0`, ...named });
    }
  }

  /** When its job is due, by id: epoch milliseconds. */
  async function dueAt(jobId: string): Promise<number> {
    return dueAtOfScore(Number(await connection.zscore(queue.toKey('delayed'), jobId)));
  }

  const stored = () => readStored(connection, prefix);
  const parts = { limiters, foresights, policy, own: [queue], queues: [queue], homes: () => [prefix], connection };
  const audit = createAudit(connection, prefix);
  const canceling = () => Promise.resolve({ find: parts, cancel: (target: CancelTarget) => producer.cancel(target) });
  /** The same as operations need it. */
  const operating = { ...parts, audit, store: { connection, prefix }, canceling };
  return { producer, limiters, parts, operating, audit, wait, dueAt, stored };
}
