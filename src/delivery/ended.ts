import { targetOf } from '../domain/device.ts';
import { waitOf, type Ended, type Outcome } from '../domain/ended.ts';
import { waitsFrom } from '../domain/send-after.ts';
import type { Completed } from './ack.ts';
import type { Context } from './context.ts';

/** The return value of a job that completes: how, when the first device accepted it, and how each device ended. */
export function endedOf({ progress }: Pick<Context, 'progress'>, completed: Completed): Ended {
  const { sentAt, devices, digest } = progress;
  const isDelivered = completed.outcome === 'delivered';
  return {
    ...completed,
    ...(isDelivered && digest?.own === false && { forOthers: true }),
    ...(isDelivered && progress.silenced === true && { silenced: true }),
    ...(sentAt !== undefined && { sentAt }),
    devices,
  };
}

/** The entry of a job that completes. `options`: the job's, which have its generation. */
export function outcomeOf(
  { notification, enqueuedAt }: Pick<Context, 'notification' | 'enqueuedAt'>,
  ended: Ended,
  options: object,
  endedAt: number,
): Outcome {
  const { id, recipientId, category } = notification;
  const { generation } = options as { readonly generation?: unknown };
  return {
    ...{ id, recipientId, ...(category !== undefined && { category }), ...targetOf(notification) },
    ...ended,
    generation: typeof generation === 'number' ? generation : 0,
    enqueuedAt,
    waitMs: waitOf(waitsFrom(enqueuedAt, notification), ended.sentAt, endedAt),
  };
}
