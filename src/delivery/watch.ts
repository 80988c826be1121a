import { newerText } from '../domain/format.ts';
import { resultName, type Result } from '../notification/outcome.ts';
import { createSparing, type Logger, type Sparing } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { isLockLost } from '../queue/job-lock.ts';
import type { Context, PassFacts, Watcher } from './context.ts';
import type { RetryPolicy } from './parts.ts';
import { lackText, NEWER_FORMAT, NO_CREDENTIALS, redactedError } from './decide.ts';

/** Counts each pass in the metrics. */
export function createPassCounter(
  metrics: Pick<Metrics, 'passEnded' | 'woken' | 'unprioritised' | 'newerJob' | 'withoutCredentials'>,
): Watcher {
  return {
    taken({ isUnprioritised, startedAt, before: { dueAt } }) {
      if (isUnprioritised) metrics.unprioritised();
      if (dueAt !== undefined) metrics.woken(startedAt - dueAt);
    },
    ended({ lacking }, result, end) {
      if (isNewer(result)) metrics.newerJob();
      if (isWithoutCredentials(result)) for (const { account } of lacking) metrics.withoutCredentials(account);
      metrics.passEnded(result, end);
    },
  };
}

interface PassLogParts {
  readonly log: Logger;
  readonly retry: RetryPolicy;
  /** Called with a job that another worker has by now, or may take. */
  readonly onLockLost: (jobId: string) => void;
}

/** Logs one line for each pass, one more for an error that no step foresaw, and the results that Redis did not take. */
export function createPassLog({ log, retry, onLockLost }: PassLogParts): Watcher {
  // The lines of passes have no secret fields; pino's search for them would be a third of the cost of a line.
  const lines = log.child({}, { redact: [] });
  let isUnprioritisedLogged = false;
  const sparing = createSparing(NEWER_EVERY_MS);
  return {
    taken({ jobId, isUnprioritised }) {
      if (!isUnprioritised || isUnprioritisedLogged) return;
      isUnprioritisedLogged = true;
      log.warn({ jobId }, UNPRIORITISED); // logged only for the first such job
    },
    ended(context, result, end) {
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
    notAcked({ jobId }, error) {
      if (isLockLost(error)) onLockLost(jobId);
      else log.warn({ jobId, err: error }, NOT_ACKED);
    },
  };
}

const LOCK_LOST =
  'nothing sent: this worker did not renew its lock on the job in time; the worker that takes the job goes on with it';
const NOT_ACKED =
  'Redis did not take the result of this pass; the job runs again when its lock has run out, and may alert a second time';
const UNPRIORITISED =
  'a job was added without a priority: BullMQ takes such jobs before all that are due, so alerts that are due may be late; workers ' +
  'give a priority to those that wait, one command for each; add jobs with priority 10 (2 for urgent ones)';

/** Jobs of a newer version are logged at most this often: there may be many, and each may come back many times. */
export const NEWER_EVERY_MS = 60_000;

/** Whether a pass put its job back for a worker of a newer version. */
function isNewer(result: Result): boolean {
  return result.kind === 'deferred' && result.code === NEWER_FORMAT;
}

/** Whether a pass put its job back for a worker with credentials that this one lacks. */
function isWithoutCredentials(result: Result): boolean {
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

/** Logs at most one line a minute for each kind of thing that a newer version wrote. */
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

/** The log says `held` for deferred: this name is older than the glossary. */
function loggedName(result: Result): string {
  return result.kind === 'deferred' ? 'held' : resultName(result);
}

/** The fields of a pass's line, with the ids by which people search the log, where the data has them. */
function fieldsOf(context: Context, result: Result, name: string, { target, waitedMs, attempts }: PassFacts) {
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
    attempts,
    traceId: context.trace?.traceId,
  };
}

function shortText(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= 256 ? value : undefined;
}
