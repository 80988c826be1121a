/**
 * The files of this folder, in the order of a pass through them:
 *
 * - deliver.ts: what a worker does with a job; the steps of a pass
 * - context.ts: what the steps of a pass read and write, and what a job remembers between passes
 * - ready.ts: the alert encoded for each device, and a stream set aside at each server
 * - slot.ts: the order of one recipient's passes, the slot, and how slots are given back
 * - send.ts: tokens of the quotas, the note of AT_MOST_ONCE, and the send
 * - replies.ts: what the replies mean for devices and circuit breakers
 * - decide.ts: the result of the pass, whichever step found it
 * - end.ts: the result logged, reported to BullMQ, and written to the stream of outcomes
 * - cancel.ts: jobs named `cancel`, and passes of notifications that were canceled
 */
import type { Job } from 'bullmq';
import { formatFault } from '../domain/faults.ts';
import type { Completion, Result } from '../domain/outcome.ts';
import { SEND_AFTER, tooFarAhead } from '../domain/time.ts';
import type { Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { CancellationIndex } from '../queue/cancellation-index.ts';
import type { JobLock } from '../queue/job-lock.ts';
import { isUnprioritised } from '../queue/names.ts';
import type { Place } from '../queue/notification-worker.ts';
import type { Outcomes } from '../queue/outcomes.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { unlessCanceled } from './cancel.ts';
import { createContext, openDevices, timeLeftMs, type Context, type DeliverParts, type EndTurn } from './context.ts';
import * as decide from './decide.ts';
import { ack, completionOf, createPassLog, endOf, noteKey, outcomeOf } from './end.ts';
import { encode, encodeAgain, reserveStreams } from './ready.ts';
import { askBreakers, releaseTrials } from './replies.ts';
import { endInterrupted, mayHaveAlerted, prepareSend, send } from './send.ts';
import { cancelReservation, createTurns, moveUp, refundSlot, takeSlot } from './slot.ts';

export interface ProcessorParts extends Omit<DeliverParts, 'turns'> {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'passEnded' | 'woken' | 'unprioritised'>;
  /** Which jobs wait under which cancellation key. */
  readonly index: CancellationIndex;
  /** Fires when the grace period of a stopping worker is over. */
  readonly signal: AbortSignal;
  /** Called with a job that another worker has by now, or may take. */
  readonly onLockLost: (jobId: string) => void;
  /** Absent: no stream of outcomes is written. */
  readonly outcomes?: Outcomes;
}

/** What BullMQ's worker does with each job that is a notification: one pass, logged and counted, then reported to BullMQ. */
export function createProcessor(given: ProcessorParts) {
  const parts = { ...given, turns: createTurns() };
  const { metrics, outcomes, signal, index, now } = parts;
  const log = createPassLog(parts);
  return async (job: Job, lock: JobLock, place: Place): Promise<Completion> => {
    if (job.progress === 0 && isUnprioritised(job)) {
      metrics.unprioritised();
      log.unprioritised(job.id);
    }
    const context = createContext(job, lock, signal, place);
    const { dueAt } = context.progress;
    if (dueAt !== undefined) {
      metrics.woken(now() - dueAt);
      context.progress = { ...context.progress, dueAt: undefined };
    }
    const result = await deliver(context, parts);
    const end = endOf(context, result, now());
    metrics.passEnded(result, end);
    log.result(context, result, end);
    await noteKey(context, result, index);
    const completed = await ack(context, result, (error) => log.notAcked(context.jobId, error));
    const completion = completionOf(context.progress, completed);
    // Before BullMQ completes the job: if this worker dies in between, another one writes the entry again.
    await outcomes?.write(outcomeOf(context, completion, job.opts, now()));
    return completion;
  };
}

/** One pass, from top to bottom. Each step writes what it found to the context; each result is decided in decide.ts. */
export async function deliver(context: Context, parts: DeliverParts): Promise<Result> {
  const stalled = decide.stalledAgain(context, parts);
  if (stalled !== undefined) return stalled;
  if (context.faults.length > 0) return decide.invalid(context);
  if (!(await context.lock.isValid())) return decide.LOCK_LOST;
  context.progress = endInterrupted(context.progress, parts.now());

  let endTurn: EndTurn | undefined;
  try {
    if (openDevices(context).length === 0) return decide.finished(context);
    if (timeLeftMs(context, parts) <= 0) return await expire(context, parts);
    const early = beforeSendAfter(context, parts);
    if (early !== undefined) return await unlessCanceled(context, early, parts);

    endTurn = await parts.turns.take(context.notification.recipientId);
    await askBreakers(context, parts);
    encode(context, parts);
    await reserveStreams(context, parts);
    if (context.ready.length === 0) return await unlessCanceled(context, decide.afterSend(context, parts), parts);
    if (timeLeftMs(context, parts) <= 0) return await expire(context, parts); // the steps before may have waited

    // The ask makes the limiter forget the unused slot. If another worker has the job by now, it may be sending in that slot.
    if (context.isSlotUnused && !(await context.lock.isValid())) return decide.LOCK_LOST;
    const answer = await takeSlot(context, parts, {
      onAsked: endTurn, // the limiter answers in the order of asking
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

/** It expires before it is admitted: a slot that is reserved ahead is given back. */
async function expire(context: Context, parts: DeliverParts): Promise<Result> {
  await cancelReservation(context, parts);
  return decide.expired(context);
}

/** A worker whose clock is behind must not refuse an instant that the producer accepted: by so much the clocks may differ. */
const CLOCK_SKEW_MS = 3_600_000;

/**
 * Puts a notification back whose `sendAfter` lies ahead; undefined if it may be sent. pushpacer's producer delays the job itself,
 * and refuses what lies too far ahead, so this is for jobs of other clients, and for a producer whose clock is ahead.
 */
function beforeSendAfter(context: Context, { now }: DeliverParts): Result | undefined {
  const { sendAfter, expiresAt } = context.notification;
  if (sendAfter === undefined && expiresAt === undefined) return undefined;
  const at = now();
  const faults = tooFarAhead({ sendAfter, expiresAt }, at, CLOCK_SKEW_MS);
  if (faults.length > 0) {
    return { kind: 'dead-letter', reason: 'invalid', message: faults.map(formatFault).join('; ') };
  }
  if (sendAfter === undefined || sendAfter <= at) return undefined;
  const waitMs = sendAfter - at;
  context.progress = { ...context.progress, dueAt: sendAfter, rule: SEND_AFTER };
  return { kind: 'requeued', waitMs, delayMs: waitMs, rule: SEND_AFTER };
}
