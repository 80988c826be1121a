import { DelayedError, UnrecoverableError } from 'bullmq';
import { targetOf } from '../domain/device.ts';
import { newerText } from '../domain/format.ts';
import { resultName, waitOf, type Completion, type Outcome, type Result } from '../domain/outcome.ts';
import { waitsFrom } from '../domain/time.ts';
import { createSparing, type Logger, type Sparing } from '../observe/log.ts';
import type { PassEnd } from '../observe/metrics.ts';
import type { CancellationIndex } from '../queue/cancellation-index.ts';
import { ANOTHER_HAS_IT, isLockLost } from '../queue/job-lock.ts';
import { insist } from '../redis/deadline.ts';
import { putBackMs, type Context, type Progress, type RetryPolicy } from './context.ts';
import { lackText, NEWER_FORMAT, NO_CREDENTIALS, redactedError } from './decide.ts';
import { slotLateMs } from './slot.ts';

/** What the metrics count of a pass beside its result. `before`: what the job remembered when the pass began. */
export function endOf(context: Context, { kind }: Result, before: Progress, now: number): PassEnd {
  const { data, enqueuedAt, progress } = context;
  const { sentAt } = progress;
  const isOver = kind !== 'requeued' && kind !== 'deferred' && kind !== 'retried' && kind !== 'yielded';
  const waitedMs = waitOf(waitsFrom(enqueuedAt, data), sentAt, now);
  const lateMs = slotLateMs(context, before, now);
  return {
    target: targetOf(data),
    ...(isOver && { waitedMs }),
    ...(lateMs !== undefined && { slotLateMs: lateMs }),
    ...(kind === 'delivered' && sentAt !== undefined && { acceptedMs: waitedMs }),
  };
}

interface PassLogParts {
  readonly log: Logger;
  readonly retry: RetryPolicy;
  readonly onLockLost: (jobId: string) => void;
}

/** Logs one line for each pass, one more for an error that no step foresaw, and the results that Redis did not take. */
export function createPassLog({ log, retry, onLockLost }: PassLogParts) {
  // The lines of passes have no secret fields; to look for some would be a third of the cost of a line.
  const lines = log.child({}, { redact: [] });
  let isUnprioritisedLogged = false;
  const sparing = createSparing(NEWER_EVERY_MS);
  return {
    result(context: Context, result: Result, end: PassEnd): void {
      if (isNewer(result)) {
        logNewer(context, sparing, log);
        return;
      }
      if (isWithoutCredentials(result)) {
        logLacking(context, sparing, log);
        return;
      }
      if (context.error !== undefined) logUnexpectedError(context, result, retry, log);
      const name = loggedName(result);
      const fields = fieldsOf(context, result, name, end);
      if (result.kind === 'dead-letter') lines.warn(fields, name);
      else if (result.kind === 'yielded') lines.warn(fields, LOCK_LOST);
      else lines.info(fields, name);
    },
    notAcked(jobId: string, error: unknown): void {
      if (isLockLost(error)) onLockLost(jobId);
      else log.warn({ jobId, err: error }, NOT_ACKED);
    },
    /** Logs the first such job alone. */
    unprioritised(jobId: string | undefined): void {
      if (!isUnprioritisedLogged) log.warn({ jobId }, UNPRIORITISED);
      isUnprioritisedLogged = true;
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

/** A job that a newer version wrote may come back many times, and there may be many of them. */
export const NEWER_EVERY_MS = 60_000;

/** Whether a pass put its job back for a worker of a newer version. */
export function isNewer(result: Result): boolean {
  return result.kind === 'deferred' && result.code === NEWER_FORMAT;
}

/** Whether a pass put its job back for a worker with credentials that this one lacks. */
export function isWithoutCredentials(result: Result): boolean {
  return result.kind === 'deferred' && result.code === NO_CREDENTIALS;
}

/** Logs one line a minute for each account, since such a job may come back many times. */
function logLacking({ jobId, lacking, isElsewhere }: Context, sparing: Sparing, log: Logger): void {
  for (const { account } of lacking) {
    const repeats = sparing(account);
    if (repeats !== undefined)
      log.warn({ jobId, code: NO_CREDENTIALS, repeats }, `${lackText(account)}: ${isElsewhere ? OTHERS : NOBODY}`);
  }
}

const OTHERS = 'put back for a worker that has them';
const NOBODY =
  'put back, but no other worker that has them is alive; it becomes a dead letter if none comes within CREDENTIALS_WAIT';

/** Logs one line a minute for what was written by a newer version. */
export function logNewer({ jobId, newer }: Pick<Context, 'jobId' | 'newer'>, sparing: Sparing, log: Logger): void {
  const what = newer === undefined ? 'limiter state' : newer.what;
  const repeats = sparing(what);
  if (repeats === undefined) return;
  log.warn({ jobId, code: NEWER_FORMAT, what: newer === undefined ? what : newerText(newer), repeats }, NEWER);
}

const NEWER =
  'a newer version of pushpacer wrote what this job needs, and this worker cannot read it: put back for another worker, at no ' +
  'attempt; it waits until one of the newer version takes it';

/** Logs where the error came from, without the texts of the notification. */
function logUnexpectedError(context: Context, result: Result, { attempts }: RetryPolicy, log: Logger): void {
  const { jobId, error: thrown, progress } = context;
  const stack = thrown instanceof Error ? thrown.stack : undefined;
  const where = stack?.split('\n').filter((line) => line.startsWith('    at '));
  const next = result.kind === 'retried' ? `retry in ${(result.waitMs / 1000).toFixed(1)} s` : 'no more retries';
  const error = redactedError(thrown, context);
  log.error({ jobId, error, where }, `unexpected error; attempt ${progress.tries} of ${attempts}, ${next}`);
}

/** Two names in the log are older than the words of the code. */
function loggedName(result: Result): string {
  return result.kind === 'deferred' ? 'held' : resultName(result);
}

/** With the ids that a reader of the log looks for, where the data has them. */
function fieldsOf(context: Context, result: Result, name: string, { target, waitedMs }: PassEnd) {
  const { id, recipientId, category } = (context.data ?? {}) as Record<string, unknown>;
  return {
    jobId: context.jobId,
    id: shortText(id), // pino leaves out what is undefined
    recipientId: shortText(recipientId),
    category: shortText(category),
    ...target,
    outcome: name,
    ...result,
    kind: undefined,
    ...(waitedMs !== undefined && { waitMs: waitedMs }),
    attempts: attemptsOf(context, result),
    traceId: context.trace?.traceId,
  };
}

/** The attempts so far. `progress.tries` leaves out the one that ended the notification: nothing comes after it. */
export function attemptsOf({ attemptsBefore, progress: { tries }, tried }: Context, { kind }: Result): number {
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
export async function noteKey(
  { jobId, notification }: Context,
  result: Result,
  index: CancellationIndex,
): Promise<void> {
  const { recipientId, cancellationKey } = notification;
  if (cancellationKey === undefined || result.kind === 'yielded') return;
  const place = { recipientId, cancellationKey };
  const waitMs = putBackMs(result);
  const isKept = result.kind === 'canceled'; // a second cancel is to answer the same
  const noting = waitMs === undefined ? index.ended(place, jobId, isKept) : index.waits(place, jobId, waitMs);
  await noting.catch(() => undefined);
}

/** The beginning of a completed job's return value. */
export type Completed = Pick<Completion, 'outcome' | 'by'>;

/**
 * Reports the result of a pass to BullMQ: the job is completed, put back, or failed for good (and from there it goes to the dead
 * letters). BullMQ wants two of these as errors: DelayedError for a job that it is to leave as it is, UnrecoverableError
 * for one that failed. Where Redis refuses for now, it is asked again as long as the lock lasts.
 *
 * @param onNotAcked called where Redis did not take the result: the job comes back when its lock has run out
 */
export async function ack(
  { lock, progress, newer }: Pick<Context, 'lock' | 'progress' | 'newer'>,
  result: Result,
  onNotAcked: (error: unknown) => void,
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
      const delayMs = progress.dueAt === undefined ? putBackMs(result) : progress.dueAt - Date.now();
      await insistOn(() => lock.putBack(delayMs ?? 0, newer === undefined ? progress : undefined));
      throw new DelayedError();
    }
    case 'yielded':
      throw new DelayedError();
    case 'dead-letter': {
      const { reason, message } = result;
      // The dead letter is made of `dead` (dead-letters/letter.ts). It is no part of Progress: if the job runs once more because
      // its end was not noted, the new pass decides anew.
      if (await insistOn(() => lock.save({ ...progress, dead: { reason, message } }))) {
        throw new UnrecoverableError(`${reason}: ${message}`);
      }
      onNotAcked(new Error(ANOTHER_HAS_IT));
      throw new DelayedError();
    }
    default:
      // Which device failed, and how. It is only to be looked at, so the end of the job does not wait for it.
      if (progress.attempts.length > 0) await lock.save(progress).catch(() => undefined);
      return { outcome: result.kind, ...('by' in result && { by: result.by }) };
  }
}

/** The return value of a job that completes: how, when the first device accepted it, and how each device ended. */
export function completionOf({ sentAt, devices, silenced }: Context['progress'], completed: Completed): Completion {
  const isDelivered = completed.outcome === 'delivered';
  return {
    ...completed,
    ...(isDelivered && silenced === true && { silenced: true }),
    ...(sentAt !== undefined && { sentAt }),
    devices,
  };
}

/** The entry of the stream of outcomes. `options`: the job's, which have its generation. */
export function outcomeOf(
  { notification, enqueuedAt }: Context,
  completion: Completion,
  options: object,
  endedAt: number,
): Outcome {
  const { id, recipientId, category } = notification;
  const { generation } = options as { readonly generation?: unknown };
  return {
    ...{ id, recipientId, ...(category !== undefined && { category }), ...targetOf(notification) },
    ...completion,
    generation: typeof generation === 'number' ? generation : 0,
    enqueuedAt,
    waitMs: waitOf(waitsFrom(enqueuedAt, notification), completion.sentAt, endedAt),
  };
}
