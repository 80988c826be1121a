/**
 * The files of this folder, in the order of a pass through them:
 *
 * - deliver.ts: what a worker does with a job; the steps of a pass
 * - context.ts: what the steps of a pass read and write, and what a job remembers between passes
 * - replies.ts: what circuit breakers say before the send, and what the replies mean for them and for the devices
 * - ready.ts: the alert encoded for each device, and a stream set aside at each server
 * - slot.ts: the order of one recipient's passes, the slot, and how slots are given back
 * - send.ts: tokens of the quotas, the note of AT_MOST_ONCE, and the send
 * - decide.ts: the result of the pass, whichever step found it
 * - story.ts: what is recorded of the pass, where HISTORY_MAX is set
 * - trace.ts: what its spans say, where traces are wanted
 * - end.ts: the result logged, reported to BullMQ, and written to the stream of outcomes
 * - cancel.ts: what a worker does with a job named `cancel`
 */
import type { Job } from 'bullmq';
import { NewerFormatError } from '../domain/format.ts';
import { placeOf } from '../domain/limits.ts';
import type { Completion, Result } from '../domain/outcome.ts';
import type { Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { Tracing } from '../observe/tracing.ts';
import type { CancellationIndex } from '../queue/cancellation-index.ts';
import type { JobLock } from '../queue/job-lock.ts';
import { isUnprioritised } from '../queue/names.ts';
import type { Place } from '../queue/notification-worker.ts';
import type { Outcomes } from '../queue/outcomes.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { ReplicasMissingError } from '../redis/replicas.ts';
import { createContext, openDevices, timeLeftMs, type Context, type DeliverParts, type EndTurn } from './context.ts';
import * as decide from './decide.ts';
import {
  ack,
  attemptsOf,
  completionOf,
  createPassLog,
  endOf,
  isNewer,
  isWithoutCredentials,
  noteKey,
  outcomeOf,
} from './end.ts';
import { encode, encodeAgain, isForAnother, reserveStreams } from './ready.ts';
import { askBreakers, releaseTrials } from './replies.ts';
import { endInterrupted, mayHaveAlerted, prepareSend, send } from './send.ts';
import { createMoveUps, createTurns, forget, isKnown, moveUp, refundSlot, release, takeSlot } from './slot.ts';
import { keptStoryOf, passOf, recorded, wokenLateMs, type Recording } from './story.ts';
import { beginTrace, endTrace } from './trace.ts';

export interface ProcessorParts extends Omit<DeliverParts, 'turns' | 'moveUps'> {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'passEnded' | 'woken' | 'unprioritised' | 'newerJob' | 'withoutCredentials'>;
  /** Which jobs wait under which cancellation key. */
  readonly index: CancellationIndex;
  /** Fires when the grace period of a stopping worker is over. */
  readonly signal: AbortSignal;
  /** Called with a job that another worker has by now, or may take. */
  readonly onLockLost: (jobId: string) => void;
  /** Absent: no stream of outcomes is written. */
  readonly outcomes?: Outcomes;
  /** Absent: no story is recorded. */
  readonly recording?: Recording;
  /** Absent: no traces are wanted. */
  readonly tracing?: Tracing;
}

/** What BullMQ's worker does with the jobs that are notifications. */
export interface DeliveryProcessor {
  /** One pass, logged and counted, then reported to BullMQ. */
  readonly process: (job: Job, lock: JobLock, place: Place) => Promise<Completion>;
  /** To be called when BullMQ has the end of the job, with the same object. */
  readonly completed: (job: Job) => Promise<void>;
}

export function createProcessor(given: ProcessorParts): DeliveryProcessor {
  const parts = { ...given, turns: createTurns(), moveUps: createMoveUps() };
  const { metrics, outcomes, recording, tracing, signal, index, now } = parts;
  const log = createPassLog(parts);
  /** Those that the limiter still knows of. */
  const known = new WeakMap<Job, Context>();
  const process = async (job: Job, lock: JobLock, place: Place): Promise<Completion> => {
    if (job.progress === 0 && isUnprioritised(job)) {
      metrics.unprioritised();
      log.unprioritised(job.id);
    }
    const context = createContext(job, lock, signal, place);
    if (tracing !== undefined) context.trace = beginTrace(tracing, context, job.opts);
    const at = now();
    const before = context.progress;
    const { dueAt } = before;
    if (dueAt !== undefined) {
      metrics.woken(at - dueAt);
      context.progress = { ...context.progress, dueAt: undefined };
    }
    const lateMs = recording && wokenLateMs(context, dueAt, at, recording);
    const result = await deliver(context, parts);
    if (isNewer(result)) metrics.newerJob();
    if (isWithoutCredentials(result)) for (const { account } of context.lacking) metrics.withoutCredentials(account);
    if (recording !== undefined && context.newer === undefined) {
      const { worker } = recording;
      const pass = passOf(context, result, { at, lateMs: await lateMs, now: now(), worker });
      context.progress = recorded(context.progress, pass);
    }
    const end = endOf(context, result, before, now());
    metrics.passEnded(result, end);
    if (context.trace !== undefined) {
      const takenLateMs = dueAt === undefined ? undefined : at - dueAt;
      endTrace(context.trace, context, result, end, {
        now: now(),
        attempts: attemptsOf(context, result),
        wokenLateMs: takenLateMs,
      });
    }
    log.result(context, result, end);
    await noteKey(context, result, index);
    if (isKnown(context, result)) known.set(job, context);
    const completed = await ack(context, result, (error) => log.notAcked(context.jobId, error));
    const completion = completionOf(context.progress, completed);
    // Before BullMQ completes the job: if this worker dies in between, another one writes the entry again.
    if (outcomes !== undefined || recording !== undefined) {
      const endedAt = now();
      const outcome = outcomeOf(context, completion, job.opts, endedAt);
      const story = recording && keptStoryOf(outcome, context.progress, job.opts, endedAt);
      await Promise.all([outcomes?.write(outcome), story && recording.history.write(story)]);
    }
    return { ...completion, attempts: attemptsOf(context, result) };
  };
  return {
    process,
    async completed(job) {
      const context = known.get(job);
      if (context !== undefined) await forget(context, parts);
    },
  };
}

/** One pass. What the notification holds is given back or handed on if it ends here, whichever step ended it. */
export async function deliver(context: Context, parts: DeliverParts): Promise<Result> {
  const found = await pass(context, parts);
  const result = context.isAsked ? found : await unlessEnded(context, found, parts);
  await release(context, result, parts);
  return result;
}

/** The steps from top to bottom. Each writes what it found to the context; each result is decided in decide.ts. */
async function pass(context: Context, parts: DeliverParts): Promise<Result> {
  if (context.newer !== undefined) return decide.newer(context, parts);
  const stalled = decide.stalledAgain(context, parts);
  if (stalled !== undefined) return stalled;
  if (context.faults.length > 0) return decide.invalid(context);
  if (!(await context.lock.isValid())) return decide.LOCK_LOST;
  context.progress = endInterrupted(context.progress, parts.now());

  let endTurn: EndTurn | undefined;
  try {
    if (openDevices(context).length === 0) return decide.finished(context);
    if (timeLeftMs(context, parts) <= 0) return decide.expired(context);
    const early = decide.beforeSendAfter(context, parts);
    if (early !== undefined) return early;

    endTurn = await parts.turns.take(context.notification.recipientId);
    await askBreakers(context, parts);
    encode(context, parts);
    if (await isForAnother(context, parts)) return decide.withoutCredentials(context, parts);
    await reserveStreams(context, parts);
    if (context.ready.length === 0) return decide.afterSend(context, parts);
    if (timeLeftMs(context, parts) <= 0) return decide.expired(context); // the steps before may have waited

    // The ask makes the limiter forget the unused slot. If another worker has the job by now, it may be sending in that slot.
    if (context.isSlotUnused && !(await context.lock.isValid())) return decide.LOCK_LOST;
    const answer = await takeSlot(context, parts, {
      onAsked: endTurn,
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
      const instead = decide.onRefused(context, answer);
      const waitsForDay = context.notification.onQuiet === 'delay' && answer.quietMs !== undefined;
      if (waitsForDay && instead !== 'delay') return decide.untilQuietEnds(context, answer, parts);
      if (instead !== 'silence') return decide.refused(context, answer, parts);
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
    if (error instanceof ReplicasMissingError) return decide.replicasMissing(context, parts);
    if (error instanceof NewerFormatError) return decide.newerLimiterState(context, parts);
    return decide.unexpectedError(context, error, parts);
  } finally {
    endTurn?.();
    for (const permit of context.permits) permit.release(); // does nothing for one that was used
    releaseTrials(context, parts);
  }
}

/**
 * How the notification ends in place of a result that was found without an ask, if it was canceled, or ended as a part of a digest: the
 * answer to an ask says it, but this pass did not ask. Else it would be put back, or become a dead letter that a replay sends.
 */
async function unlessEnded(context: Context, result: Result, parts: DeliverParts): Promise<Result> {
  if (context.newer !== undefined || result.kind === 'yielded' || result.kind === 'delivered') return result;
  const { data, jobId, firstEnqueuedAt: enqueuedAt } = context;
  const place = placeOf(data);
  if (place === undefined) return result;
  const end = await parts.endOf({ ...place, jobId, enqueuedAt }).catch(() => undefined); // then a later pass looks
  return end === undefined ? result : decide.ended(context, { kind: 'ended', ...end, gaveBackSlot: false });
}
