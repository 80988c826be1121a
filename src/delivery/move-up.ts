import type { Moved } from '../limiter/limiter.ts';
import type { Due } from '../queue/redelay.ts';
import type { Context } from './context.ts';
import type { DeliverParts } from './parts.ts';
import { jobIdOfAsk, leadMs, limiterOf } from './slot.ts';

/** No slot is moved to earlier than now plus this, so that the queue has the new due time before it comes. */
export const MOVE_LEAD_MS = 1_000;

/** When the jobs of moved reservations are due: a little before their slots, as when a worker requeues them. */
export function duesOf(moved: readonly Moved[], toleranceMs: number): Due[] {
  const earlyMs = leadMs({ toleranceMs });
  return moved.flatMap(({ id, at, rule, ruleUntil }) => {
    const jobId = id === undefined ? undefined : jobIdOfAsk(id);
    return jobId === undefined ? [] : [{ jobId, at: at - earlyMs, why: { rule, ruleUntil } }];
  });
}

type Parts = Pick<DeliverParts, 'limiter' | 'apart' | 'redelay' | 'toleranceMs'>;

/**
 * The notification gave back a slot that lay ahead: those behind it move up. Where that fails they keep their slots, which
 * are only later than need be.
 */
export async function moveUp(context: Context, parts: Parts): Promise<void> {
  const { recipientId } = context.notification;
  const onMoved = async (moved: readonly Moved[]): Promise<void> => {
    await parts.redelay(recipientId, duesOf(moved, parts.toleranceMs));
  };
  await limiterOf(context, parts)
    .moveUp(recipientId, { onMoved, leadMs: MOVE_LEAD_MS })
    .catch(() => undefined);
}
