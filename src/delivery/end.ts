import { DelayedError, UnrecoverableError } from 'bullmq';
import { targetOf } from '../notification/device.ts';
import { hasOthers, mayBeSeen, waitOf, type Completion, type Outcome, type Result } from '../notification/outcome.ts';
import { retractionOf } from '../notification/retraction.ts';
import { waitsFrom } from '../domain/time.ts';
import type { CancellationIndex } from '../queue/cancellation-index.ts';
import { ANOTHER_HAS_IT } from '../queue/job-lock.ts';
import { insist } from '../redis/deadline.ts';
import { putBackMs, type Context, type PassFacts } from './context.ts';
import { slotLateMs } from './slot.ts';

export function endOf(context: Context, result: Result, endedAt: number): PassFacts {
  const { data, enqueuedAt, startedAt, before, progress } = context;
  const { kind } = result;
  const { sentAt } = progress;
  const isOver = kind !== 'requeued' && kind !== 'deferred' && kind !== 'retried' && kind !== 'yielded';
  const waitedMs = waitOf(waitsFrom(enqueuedAt, data), sentAt, endedAt);
  const lateMs = slotLateMs(context, before, endedAt);
  return {
    target: targetOf(data),
    endedAt,
    attempts: attemptsOf(context, result),
    wokenLateMs: before.dueAt === undefined ? undefined : startedAt - before.dueAt,
    ...(isOver && { waitedMs }),
    ...(lateMs !== undefined && { slotLateMs: lateMs }),
    ...(kind === 'delivered' && sentAt !== undefined && { acceptedMs: waitedMs }),
  };
}

/** The attempts so far, with the attempt that ended the notification, which is not in `progress.tries`. */
function attemptsOf({ before, progress: { tries }, tried }: Context, { kind }: Result): number {
  const isLast = kind === 'delivered' || kind === 'retracted' || kind === 'dead-letter';
  return isLast && tried.some(({ reply }) => reply.unsent !== true) ? Math.max(tries, before.tries + 1) : tries;
}

/** After these results, a later cancel or retract by the key must still find the notification while its job's id is kept. */
const KEPT: ReadonlySet<Result['kind']> = new Set(['canceled', 'delivered', 'retracted', 'dead-letter']);

/**
 * Notes under the notification's cancellation key that it waits, or has ended. Does nothing if it has no key, or if another
 * worker has the job. Never rejects: if Redis does not take the note, a cancel by the key may not find the notification.
 */
export async function noteKey(
  { jobId, notification, progress, stalls, lock }: Context,
  result: Result,
  index: CancellationIndex,
): Promise<void> {
  const { recipientId, cancellationKey } = notification;
  if (cancellationKey === undefined || result.kind === 'yielded' || !(await lock.isValid())) return;
  const place = { recipientId, cancellationKey };
  const waitMs = putBackMs(result);
  const isKept = KEPT.has(result.kind) || mayBeSeen(progress) || stalls > 0;
  const noting = waitMs === undefined ? index.ended(place, jobId, isKept) : index.waits(place, jobId, waitMs);
  await noting.catch(() => undefined);
}

/** The beginning of a completed job's return value. */
export type Completed = Pick<Completion, 'outcome' | 'by' | 'maybeShown'>;

/**
 * Reports the result of a pass to BullMQ: the job is completed, put back, or failed for good (and then goes to the dead
 * letters). BullMQ wants an error in two cases: DelayedError to leave the job as it is, UnrecoverableError for a job that
 * failed. While Redis refuses, the report is repeated until the lock runs out.
 *
 * @param onNotAcked called if Redis did not take the result: the job comes back when its lock has run out
 * @param now as DeliverParts has it; a job that remembers no `dueAt` needs none
 */
export async function ack(
  { lock, progress, newer }: Pick<Context, 'lock' | 'progress' | 'newer'>,
  result: Result,
  onNotAcked: (error: unknown) => void,
  now: () => number = Date.now,
): Promise<Completed> {
  const insistOn = <T>(work: () => Promise<T>): Promise<T> =>
    insist(work, lock.lockMs).catch((error: unknown) => {
      onNotAcked(error);
      throw new DelayedError();
    });
  switch (result.kind) {
    case 'requeued':
    case 'deferred':
    case 'retried': {
      const delayMs = progress.dueAt === undefined ? putBackMs(result) : progress.dueAt - now();
      await insistOn(() => lock.putBack(delayMs ?? 0, newer === undefined ? progress : undefined));
      throw new DelayedError();
    }
    case 'yielded':
      throw new DelayedError();
    case 'dead-letter': {
      const { reason, message } = result;
      // `dead` is what the dead letter is made of (dead-letters/letter.ts). It is no part of Progress: if Redis did not take
      // the end of the job, the job runs once more, and the new pass decides anew.
      if (await insistOn(() => lock.save({ ...progress, dead: { reason, message } }))) {
        throw new UnrecoverableError(`${reason}: ${message}`);
      }
      onNotAcked(new Error(ANOTHER_HAS_IT));
      throw new DelayedError();
    }
    default:
      // Saves which device failed, and how; and that it stood for others, so that a later retract of its id alone leaves them on
      // the screen. The job ends even if the save fails.
      if (progress.attempts.length > 0 || hasOthers(progress.digest)) await lock.save(progress).catch(() => undefined);
      return {
        outcome: result.kind,
        ...('by' in result && { by: result.by }),
        ...('maybeShown' in result && { maybeShown: true }),
      };
  }
}

/** The return value of a completed job: how it ended, when the first device accepted it, and how each device ended. */
export function completionOf({ sentAt, devices, silenced }: Context['progress'], completed: Completed): Completion {
  const isDelivered = completed.outcome === 'delivered';
  return {
    ...completed,
    ...(isDelivered && silenced === true && { silenced: true }),
    ...(sentAt !== undefined && { sentAt }),
    devices,
  };
}

/** The entry in the stream of outcomes. `options`: the job's options, which contain its generation. */
export function outcomeOf(
  { notification, enqueuedAt }: Context,
  completion: Completion,
  options: object,
  endedAt: number,
): Outcome {
  const { id, recipientId, category } = notification;
  const { generation } = options as { readonly generation?: unknown };
  const retracted = completion.outcome === 'retracted' ? retractionOf(notification)?.retract : undefined;
  return {
    ...{ id, recipientId, ...(category !== undefined && { category }), ...targetOf(notification) },
    ...completion,
    ...(retracted && { retracted }),
    generation: typeof generation === 'number' ? generation : 0,
    enqueuedAt,
    waitMs: waitOf(waitsFrom(enqueuedAt, notification), completion.sentAt, endedAt),
  };
}
