import { DelayedError, UnrecoverableError, type Job } from 'bullmq';
import { targetOf } from '../domain/device.ts';
import { waitOf, type Ended, type Outcome, type OutcomeName } from '../domain/outcome.ts';
import { waitsFrom } from '../domain/time.ts';
import type { Logger } from '../observe/log.ts';
import type { PassEnd } from '../observe/metrics.ts';
import type { CancellationIndex } from '../queue/cancel.ts';
import { ANOTHER_HAS_IT, type JobLock, isLockLost } from '../queue/job-lock.ts';
import { insist } from '../redis/deadline.ts';
import { type Context, withDeadLetter, type Progress, type RetryPolicy } from './context.ts';
import { type Result, redactedError } from './decide.ts';

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

/** How a job was completed: the beginning of its return value (ended.ts). */
export interface Completed {
  readonly outcome: Exclude<OutcomeName, 'dead-lettered'>;
  /** Of `superseded` and `merged`: the id of the notification that goes in its place. */
  readonly by?: string;
}

type Acked = Pick<Context, 'lock' | 'progress'>;

/**
 * Tells BullMQ the result of a pass: the job is completed, put back, or failed for good (and from there it goes to the dead
 * letters). BullMQ wants two of these as errors: DelayedError for a job that it is to leave as it is, UnrecoverableError
 * for one that failed. Where Redis refuses for now, it is asked again as long as the lock lasts.
 *
 * @param onNotAcked called where Redis did not take the result: the job comes back when its lock has run out
 */
export async function ack(
  { lock, progress }: Acked,
  result: Result,
  onNotAcked: (error: unknown) => void,
): Promise<Completed> {
  switch (result.kind) {
    case 'delivered':
    case 'expired':
    case 'dropped':
    case 'canceled':
    case 'superseded':
    case 'merged':
      // Which device failed, and how. It is only to be looked at, so the end of the job does not wait for it.
      if (progress.attempts.length > 0) await lock.save(progress).catch(() => undefined);
      return { outcome: result.kind, ...('by' in result && { by: result.by }) };
    case 'requeued':
      return putBack(lock, progress, result.delayMs, onNotAcked);
    case 'held':
    case 'retried':
      return putBack(lock, progress, result.waitMs, onNotAcked);
    case 'yielded':
      throw new DelayedError();
    case 'dead-letter': {
      const { reason, message } = result;
      const letter = withDeadLetter(progress, reason, message);
      const isSaved = await saveOrReport(lock, onNotAcked, () => lock.save(letter));
      if (isSaved) throw new UnrecoverableError(`${reason}: ${message}`);
      onNotAcked(new Error(ANOTHER_HAS_IT));
      throw new DelayedError();
    }
  }
}

async function putBack(
  lock: JobLock,
  progress: Progress,
  waitMs: number,
  onNotAcked: (error: unknown) => void,
): Promise<never> {
  const delayMs = progress.dueAt === undefined ? waitMs : progress.dueAt - Date.now();
  await saveOrReport(lock, onNotAcked, () => lock.putBack(delayMs, progress));
  throw new DelayedError();
}

async function saveOrReport<T>(
  lock: JobLock,
  onNotAcked: (error: unknown) => void,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await insist(work, lock.lockMs);
  } catch (error) {
    onNotAcked(error);
    throw new DelayedError();
  }
}

/** What is logged of passes. */
export interface PassLog {
  /** One line for each pass, and one more for an error that no step foresaw. */
  result(context: Context, result: Result, end: PassEnd): void;
  /** Redis did not take the result of the pass. */
  notAcked(context: Context, error: unknown): void;
  /** A job was added without a priority; told once. */
  unprioritised(job: Pick<Job, 'id'>): void;
}

interface PassLogParts {
  readonly log: Logger;
  readonly retry: RetryPolicy;
  /** Called with a job that another worker has by now, or may take: who gathers them tells them in one line. */
  readonly onLockLost?: (jobId: string) => void;
}

export function createPassLog({ log, retry, onLockLost }: PassLogParts): PassLog {
  // The lines of passes have no secret fields; to look for some would be a third of the cost of a line.
  const lines = log.child({}, { redact: [] });
  let isToldUnprioritised = false;
  return {
    result(context, result, end) {
      if (context.error !== undefined) tellUnexpectedError(context, result, retry, log);
      const fields = fieldsOf(context, result, end);
      if (result.kind === 'dead-letter') lines.warn(fields, 'dead-lettered');
      else if (result.kind === 'yielded') lines.warn(fields, LOCK_LOST);
      else lines.info(fields, result.kind);
    },
    notAcked({ jobId }, error) {
      if (onLockLost !== undefined && isLockLost(error)) onLockLost(jobId);
      else log.warn({ jobId, err: error }, NOT_ACKED);
    },
    unprioritised({ id: jobId }) {
      if (isToldUnprioritised) return;
      isToldUnprioritised = true;
      log.warn({ jobId }, UNPRIORITISED);
    },
  };
}

const LOCK_LOST =
  'nothing sent: this worker did not renew its lock on the job in time; the worker that takes the job goes on with it';
const NOT_ACKED =
  'Redis did not take the result of this pass; the job runs again when its lock has run out, and may alert a second time';
const UNPRIORITISED =
  'a job was added without a priority: BullMQ takes such jobs before all that are due, so alerts that are due may be late; workers ' +
  'give a priority to those that wait, one command for each; add jobs with priority 10 (5 for urgent ones)';

/** Tells where the error came from, without the texts of the notification. */
function tellUnexpectedError(context: Context, result: Result, { attempts }: RetryPolicy, log: Logger): void {
  const { jobId, error: thrown, progress } = context;
  const where =
    thrown instanceof Error ? thrown.stack?.split('\n').filter((line) => line.startsWith('    at ')) : undefined;
  const next = result.kind === 'retried' ? `retry in ${(result.waitMs / 1000).toFixed(1)} s` : 'no more retries';
  const error = redactedError(thrown, context);
  log.error({ jobId, error, where }, `unexpected error; attempt ${progress.tries} of ${attempts}, ${next}`);
}

/** What is told of a pass beside its result. */
export function endOf({ data, enqueuedAt, progress: { sentAt } }: Context, { kind }: Result, now: number): PassEnd {
  const isOver = kind !== 'requeued' && kind !== 'held' && kind !== 'retried' && kind !== 'yielded';
  const waitedMs = waitOf(waitsFrom(enqueuedAt, data), sentAt, now);
  return {
    target: targetOf(data),
    ...(isOver && { waitedMs }),
    ...(kind === 'delivered' && sentAt !== undefined && { acceptedMs: waitedMs }),
  };
}

/** With the ids that a reader of the log looks for, where the data has them. */
function fieldsOf(context: Context, result: Result, { target, waitedMs }: PassEnd): Record<string, unknown> {
  const { jobId, data } = context;
  const { id, recipientId, category } = (data ?? {}) as Record<string, unknown>;
  const { kind, ...rest } = result;
  return {
    jobId,
    id: shortText(id), // pino leaves out what is undefined
    recipientId: shortText(recipientId),
    category: shortText(category),
    ...target,
    outcome: kind === 'dead-letter' ? 'dead-lettered' : kind,
    ...rest,
    ...(waitedMs !== undefined && { waitMs: waitedMs }),
    attempts: attemptsOf(context, result),
  };
}

/** The attempts so far. `progress.tries` leaves out the one that ended the notification: nothing comes after it. */
function attemptsOf({ attemptsBefore, progress: { tries }, tried }: Context, { kind }: Result): number {
  const isLast = kind === 'delivered' || kind === 'dead-letter';
  return isLast && tried.some(({ reply }) => reply.unsent !== true) ? Math.max(tries, attemptsBefore + 1) : tries;
}

function shortText(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= 256 ? value : undefined;
}

/**
 * Notes under the cancellation key of a notification that it waits, or has ended; nothing for one without a key. Never rejects: a
 * cancel by the key then may not find it.
 */
export function noteKey(context: Context, result: Result, index: CancellationIndex): Promise<void> | undefined {
  const { recipientId, cancellationKey } = context.notification;
  if (cancellationKey === undefined || result.kind === 'yielded') return undefined;
  const place = { recipientId, cancellationKey };
  return writeNote(context.jobId, result, place, index).catch(() => undefined);
}

function writeNote(
  jobId: string,
  result: Result,
  place: { readonly recipientId: string; readonly cancellationKey: string },
  index: CancellationIndex,
): Promise<void> {
  switch (result.kind) {
    case 'requeued':
      return index.waits(place, jobId, result.delayMs);
    case 'held':
    case 'retried':
      return index.waits(place, jobId, result.waitMs);
    case 'canceled': // a second cancel is to answer the same
    case 'merged': // it can still be taken out of its digest
      return index.ended(place, jobId, true);
    default:
      return index.ended(place, jobId, false);
  }
}
