/**
 * The files of this folder, in the order of a pass through them:
 *
 * - deliver.ts: what a worker does with a job; the steps of a pass
 * - context.ts: what the steps of a pass read and write; progress.ts: what a job remembers between passes
 * - parts.ts: what a worker gives to every pass
 * - replies.ts: what circuit breakers say before the send, and what the replies mean for them and for the devices
 * - ready.ts: the alert encoded for each device, and a stream set aside at each server
 * - slot.ts: the order of one recipient's passes, the slot, and how slots are given back
 * - lines.ts: how slots in one recipient's line move, and the jobs with them
 * - send.ts: tokens of the quotas, the note of AT_MOST_ONCE, and the send
 * - decide.ts: the result of the pass, whichever step found it
 * - watch.ts, story.ts, trace.ts: the watchers of a pass: watch.ts counts and logs it, story.ts records it (where HISTORY_MAX
 *   is set), trace.ts makes its spans (where traces are wanted)
 * - end.ts: the result reported to BullMQ
 * - orders.ts: what a worker does with a job named `cancel` or `retract`
 */
import { DelayedError, type Job } from 'bullmq';
import { NewerFormatError } from '../domain/format.ts';
import { placeOf } from '../domain/limits.ts';
import type { Completion, Result } from '../notification/outcome.ts';
import type { CancellationIndex } from '../queue/cancellation-index.ts';
import { ANOTHER_HAS_IT, type JobLock } from '../queue/job-lock.ts';
import type { Place } from '../queue/notification-worker.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import { ReplicasMissingError } from '../redis/replicas.ts';
import { createContext, hasSent, openDevices, timeLeftMs, type Context, type Watcher } from './context.ts';
import type { DeliverParts, EndTurn } from './parts.ts';
import * as decide from './decide.ts';
import { ack, completionOf, endOf, noteKey, outcomeOf } from './end.ts';
import { encode, encodeAgain, isForAnother, reserveStreams } from './ready.ts';
import { moveUp } from './lines.ts';
import { askBreakers, releaseTrials } from './replies.ts';
import { endInterrupted, prepareSend, send } from './send.ts';
import { createTurns, forget, isKnown, release, takeSlot } from './slot.ts';

export interface ProcessorParts extends Omit<DeliverParts, 'turns'> {
  /** What looks at each pass, called in this order. */
  readonly watchers: readonly Watcher[];
  /** Which jobs wait under which cancellation key. */
  readonly index: CancellationIndex;
  /** Fires when the grace period of a stopping worker is over. */
  readonly signal: AbortSignal;
}

/** What BullMQ's worker does with the jobs that are notifications. */
export interface DeliveryProcessor {
  /** One pass, watched, then reported to BullMQ. */
  readonly process: (job: Job, lock: JobLock, place: Place) => Promise<Completion>;
  /** To be called with the same job object when BullMQ has stored the end of the job. */
  readonly completed: (job: Job) => Promise<void>;
}

export function createProcessor(given: ProcessorParts): DeliveryProcessor {
  const parts = { ...given, turns: createTurns() };
  const { watchers, signal, index, now } = parts;
  const onTaken = watchers.flatMap(({ taken }) => taken ?? []);
  const onEnded = watchers.flatMap(({ ended }) => ended ?? []);
  const onNotAcked = watchers.flatMap(({ notAcked }) => notAcked ?? []);
  const onCompleting = watchers.flatMap(({ completing }) => completing ?? []);
  /** Jobs whose end or digest the limiter stores until `completed` removes it. */
  const known = new WeakMap<Job, Context>();
  const process = async (job: Job, lock: JobLock, place: Place): Promise<Completion> => {
    const context = createContext(job, lock, signal, place, now());
    for (const taken of onTaken) taken(context);
    const result = await deliver(context, parts);
    const end = endOf(context, result, now());
    for (const ended of onEnded) {
      const ending = ended(context, result, end);
      if (ending !== undefined) await ending;
    }
    await noteKey(context, result, index);
    if (isKnown(context, result)) known.set(job, context);
    const notAcked = (error: unknown): void => {
      for (const notify of onNotAcked) notify(context, error);
    };
    const completed = await ack(context, result, notAcked, now);
    // Asked again after each wait: an end without a send must not replace what another worker wrote of its send.
    if (!hasSent(context) && !(await lock.isValid())) {
      notAcked(new Error(ANOTHER_HAS_IT));
      throw new DelayedError();
    }
    const completion = completionOf(context.progress, completed);
    if (onCompleting.length > 0) {
      const endedAt = now();
      const outcome = outcomeOf(context, completion, job.opts, endedAt);
      const writes: Promise<void>[] = [];
      for (const completing of onCompleting) writes.push(completing(context, outcome, endedAt));
      await Promise.all(writes);
    }
    return { ...completion, attempts: end.attempts };
  };
  return {
    process,
    async completed(job) {
      const context = known.get(job);
      if (context !== undefined) await forget(context, parts);
    },
  };
}

/** One pass. If any step ends the notification, its slot and its place in a digest are given back or handed on. */
export async function deliver(context: Context, parts: DeliverParts): Promise<Result> {
  const found = await pass(context, parts);
  const own = context.isAsked ? found : await unlessEnded(context, found, parts);
  // If this process stood still, another worker may have the job, and decides.
  const result = hasSent(context) || (await context.lock.isValid()) ? own : decide.LOCK_LOST;
  await release(context, result, parts);
  return result;
}

/** The steps from top to bottom. Each result is decided in decide.ts. */
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
    let ready = encode(context, parts);
    if (await isForAnother(context, parts)) return decide.withoutCredentials(context, parts);
    ready = await reserveStreams(context, ready, parts);
    if (ready.length === 0) return decide.afterSend(context, parts);
    if (timeLeftMs(context, parts) <= 0) return decide.expired(context); // the steps before may have waited

    const answer = await takeSlot(context, parts, {
      onAsked: endTurn,
      prepare: async () => {
        if (context.progress.digest !== undefined) ready = encodeAgain(context, ready, false, parts);
        return prepareSend(context, ready, parts); // a second call prepares all again: a quota may have room now
      },
    });
    if (answer.kind === 'lock-lost') return decide.LOCK_LOST;
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
      ready = encodeAgain(context, ready, true, parts); // nobody is alerted, so it needs no slot
    }

    const prepared = answer.kind === 'slot' ? answer.prepared : await prepareSend(context, ready, parts);
    const sent = await send(context, prepared, parts);
    if (sent === 'lock-lost') return decide.LOCK_LOST;
    return sent === 'not-noted'
      ? decide.notNoted(context, parts)
      : decide.afterSend(context, parts, prepared.quotaWait);
  } catch (error) {
    if (error instanceof LimiterUnavailableError) return decide.limiterUnavailable(context, parts);
    if (error instanceof ReplicasMissingError) return decide.replicasMissing(context, parts);
    if (error instanceof NewerFormatError) return decide.newerLimiterState(context, parts);
    return decide.unexpectedError(context, error, parts);
  } finally {
    endTurn?.();
    for (const permit of context.permits) permit.release(); // does nothing for a permit that was used
    releaseTrials(context, parts);
  }
}

/**
 * Asks the limiter how the notification ends, if this pass found its result without an ask: it may have been canceled, or sent
 * as a part of a digest. Without this, such a notification would be put back, or become a dead letter that a replay sends. Only an
 * expiry waits for the answer: after any other result a later pass, or the replay, asks again.
 */
async function unlessEnded(context: Context, result: Result, parts: DeliverParts): Promise<Result> {
  if (context.newer !== undefined || result.kind === 'yielded') return result;
  if (result.kind === 'delivered' || result.kind === 'retracted') return result;
  const { data, jobId, firstEnqueuedAt: enqueuedAt } = context;
  const place = placeOf(data);
  if (place === undefined) return result;
  try {
    const end = await parts.endOf({ ...place, jobId, enqueuedAt });
    return end === undefined ? result : decide.ended(context, { kind: 'ended', ...end, gaveBackSlot: false });
  } catch {
    return result.kind === 'expired' ? decide.endUnknown(parts) : result;
  }
}
