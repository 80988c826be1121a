import { ended, type Result } from './decide.ts';
import type { Context } from './context.ts';
import { moveUp } from './move-up.ts';
import type { DeliverParts } from './parts.ts';
import { cancelReservation } from './slot.ts';

/**
 * The limiter answers an ask of a canceled notification with that. A pass that puts the job back without an ask, because of
 * `sendAfter` or an open breaker, looks here: its job may wait for longer than the limiter remembers that it is canceled.
 */
export async function unlessCanceled(context: Context, result: Result, parts: DeliverParts): Promise<Result> {
  if (result.kind !== 'requeued' && result.kind !== 'held') return result;
  const isCanceled = await parts.isCanceled(context).catch(() => false); // then a later pass looks
  if (!isCanceled) return result;
  if (context.progress.requeues > 0) {
    await cancelReservation(context, parts);
    await moveUp(context, parts);
  }
  return ended(context, { kind: 'ended', how: 'canceled', gaveBackSlot: false });
}
