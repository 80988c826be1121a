import type { Job } from 'bullmq';
import { formatFault } from '../domain/faults.ts';
import type { Ended } from '../domain/outcome.ts';
import { SEND_AFTER, tooFarAhead } from '../domain/time.ts';
import type { Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { CancellationIndex } from '../queue/cancel.ts';
import type { JobLock } from '../queue/job-lock.ts';
import { isUnprioritised } from '../queue/names.ts';
import type { Place } from '../queue/notification-worker.ts';
import type { Outcomes } from '../queue/outcomes.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { unlessCanceled } from './cancel.ts';
import { createContext, type DeliverParts, timeLeftMs, type Context, openDevices, type EndTurn } from './context.ts';
import * as decide from './decide.ts';
import type { Result } from './decide.ts';
import { ack, noteKey, endedOf, outcomeOf, createPassLog, endOf } from './end.ts';
import { encode, encodeAgain, reserveStreams } from './ready.ts';
import { askBreakers, releaseTrials } from './replies.ts';
import { endInterrupted, mayHaveAlerted, prepareSend, send } from './send.ts';
import { createTurns, moveUp, cancelReservation, refundSlot, takeSlot } from './slot.ts';

export interface ProcessorParts extends Omit<DeliverParts, 'turns'> {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'passEnded' | 'woken' | 'unprioritised'>;
  /** What waits under cancellation keys. */
  readonly index: CancellationIndex;
  /** Fires when the grace of a stopping worker is over. */
  readonly signal: AbortSignal;
  /** Called with a job that another worker has by now, or may take. */
  readonly onLockLost?: (jobId: string) => void;
  /** Absent: no stream of outcomes is written. */
  readonly outcomes?: Outcomes;
}

/** What BullMQ's worker does with each job. */
export type Processor = (job: Job, lock: JobLock, place?: Place) => Promise<Ended>;

/** One pass of a job: delivered as far as possible, told in one log line and in the metrics, then acked. */
export function createProcessor(given: ProcessorParts): Processor {
  const parts = { ...given, turns: createTurns() };
  const { metrics, outcomes, signal } = parts;
  const log = createPassLog(parts);
  return async (job, lock, place) => {
    if (job.progress === 0 && isUnprioritised(job)) {
      metrics.unprioritised();
      log.unprioritised(job);
    }
    const context = createContext(job, lock, signal, place);
    const { dueAt } = context.progress;
    if (dueAt !== undefined) {
      metrics.woken(parts.now() - dueAt);
      context.progress = { ...context.progress, dueAt: undefined };
    }
    const result = await deliver(context, parts);
    const end = endOf(context, result, parts.now());
    metrics.passEnded(result, end);
    log.result(context, result, end);
    const noting = noteKey(context, result, parts.index);
    if (noting !== undefined) await noting;
    const completed = await ack(context, result, (error) => log.notAcked(context, error));
    const ended = endedOf(context, completed);
    // Before BullMQ completes the job: if this worker dies in between, another one writes the entry again.
    if (outcomes !== undefined) await outcomes.write(outcomeOf(context, ended, job.opts, parts.now()));
    return ended;
  };
}

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

/** What a producer let pass, a worker whose clock is behind must not refuse. */
const CLOCK_SKEW_MS = 3_600_000;

/**
 * Puts a notification back whose `sendAfter` lies ahead; undefined if it may be sent. Our producer delays the job itself, and
 * refuses what lies too far ahead, so this is for jobs of other clients, and for a producer whose clock is ahead.
 */
function beforeSendAfter(context: Context, { now }: Pick<DeliverParts, 'now'>): Result | undefined {
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
