import type { Job } from 'bullmq';
import { targetOf } from '../domain/device.ts';
import { waitOf } from '../domain/ended.ts';
import { waitsFrom } from '../domain/send-after.ts';
import type { Logger } from '../observe/log.ts';
import type { PassEnd } from '../observe/metrics.ts';
import { isLockLost } from '../queue/job-lock.ts';
import type { RetryPolicy } from './backoff.ts';
import type { Context } from './context.ts';
import { redactedError, type Result } from './decide.ts';

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
