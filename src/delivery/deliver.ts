import { LimiterUnavailableError } from '../redis/deadline.ts';
import { endInterrupted } from './at-most-once.ts';
import { askBreakers, releaseTrials } from './breakers.ts';
import { unlessCanceled } from './canceled.ts';
import { timeLeftMs, type Context } from './context.ts';
import * as decide from './decide.ts';
import { openDevices } from './devices.ts';
import { encode, encodeAgain } from './encode.ts';
import type { DeliverParts } from './parts.ts';
import { moveUp } from './move-up.ts';
import { mayHaveAlerted, prepareSend, send } from './send.ts';
import { beforeSendAfter } from './send-after.ts';
import { cancelReservation, refundSlot, takeSlot } from './slot.ts';
import { reserveStreams } from './streams.ts';
import type { EndTurn } from './turns.ts';

/** One pass, from top to bottom. Each step writes what it found to the context; each result is decided in decide.ts. */
export async function deliver(context: Context, parts: DeliverParts): Promise<decide.Result> {
  const stalled = decide.stalledAgain(context, parts);
  if (stalled !== undefined) return stalled;
  if (context.faults.length > 0) return decide.invalid(context);
  if (!(await context.lock.isValid())) return decide.LOCK_LOST;
  context.progress = endInterrupted(context.progress, parts.now());

  let endTurn: EndTurn | undefined;
  try {
    if (openDevices(context).length === 0) return decide.finished(context);
    if (isExpired(context, parts)) return await expire(context, parts);
    const early = beforeSendAfter(context, parts);
    if (early !== undefined) return await unlessCanceled(context, early, parts);

    const turn = parts.turns.take(context.notification.recipientId);
    endTurn = turn instanceof Promise ? await turn : turn;
    await askBreakers(context, parts);
    encode(context, parts);
    await reserveStreams(context, parts);
    if (context.ready.length === 0) return await unlessCanceled(context, decide.afterSend(context, parts), parts);
    if (isExpired(context, parts)) return await expire(context, parts); // the steps before may have waited

    // To ask anew for an unused slot forgets it. If another worker has the job by now, it may be sending in that slot.
    if (context.isSlotUnused && !(await context.lock.isValid())) return decide.LOCK_LOST;
    const answer = await takeSlot(context, parts, {
      onAsked: endTurn, // the turn ends with the ask
      prepare: () => {
        if (context.progress.digest !== undefined) encodeAgain(context, false, parts);
        return prepareSend(context, parts);
      },
    });
    if (answer.kind === 'missed') return decide.missedSlot(context, parts);
    if (answer.kind === 'ended') {
      if (answer.gaveBackSlot) await moveUp(context, parts);
      return decide.ended(context, answer);
    }
    if (answer.kind === 'reserved') return decide.requeued(context, answer, parts);
    if (answer.kind === 'refused') {
      const { onQuiet } = context.notification;
      if (decide.onRefused(context, answer) !== 'silence') {
        const result = decide.refused(context, answer, parts);
        await cancelReservation(context, parts);
        return result;
      }
      if (onQuiet === 'delay' && answer.quietMs !== undefined) return decide.untilQuietEnds(context, answer, parts);
      context.isSilent = true;
      encodeAgain(context, true, parts); // nobody is alerted, so it needs no slot
      await prepareSend(context, parts);
    }

    const sent = await send(context, parts);
    if (sent === 'lock-lost') return decide.LOCK_LOST;
    if (!mayHaveAlerted(context) && context.progress.unsent !== true) await refundSlot(context, parts);
    return sent === 'not-noted' ? decide.notNoted(parts) : decide.afterSend(context, parts);
  } catch (error) {
    if (error instanceof LimiterUnavailableError) return decide.limiterUnavailable(context, parts);
    return decide.unexpectedError(context, error, parts);
  } finally {
    endTurn?.();
    for (const permit of context.permits) permit.release(); // does nothing for one that was used
    releaseTrials(context, parts);
  }
}

function isExpired(context: Context, parts: DeliverParts): boolean {
  return timeLeftMs(context, parts) <= 0;
}

/** It expired before it had a slot. */
async function expire(context: Context, parts: DeliverParts): Promise<decide.Result> {
  await cancelReservation(context, parts);
  return decide.expired(context);
}
