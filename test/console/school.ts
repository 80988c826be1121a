import { onTestFinished } from 'vitest';
import type { Policy } from '../../src/domain/limits.ts';
import type { NotificationInput } from '../../src/notification/notification.ts';
import { createProducer } from '../../src/producer/producer.ts';
import type { ConsoleBench } from '../support/console.ts';
import { createRedisLimiter } from '../support/limiters.ts';
import { makeNotification } from '../support/push.ts';

export const HOUR = 3_600_000;
/** What the console has without workers, where its variables say nothing. */
export const POLICY: Policy = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 };

/** Notifications in the queue of a console, with slots as a worker's pass takes them. There is no worker. */
export function openSchool({ connection, prefix, queue }: Pick<ConsoleBench, 'connection' | 'prefix' | 'queue'>) {
  const limiter = createRedisLimiter({ redis: connection, policy: POLICY, prefix });
  const producer = createProducer({ connection, prefix });
  onTestFinished(() => producer.close());
  /** The first of a recipient is sent, as far as the limits allow it; the others wait. */
  async function wait(
    recipientId: string,
    ...fields: readonly (Partial<NotificationInput> & { readonly id: string })[]
  ): Promise<void> {
    for (const each of fields) {
      const notification = makeNotification({ sendAfter: Date.now() + HOUR, ...each, recipientId });
      await producer.enqueue(notification);
      await limiter.admit({ recipientId, id: `${notification.id}/0` });
      const job = await queue.getJob(notification.id);
      await job?.updateProgress({ rule: 'gap', requeues: 1 }); // as a worker's pass leaves it
    }
  }

  return { limiter, producer, wait };
}
