import type { Job } from 'bullmq';
import { parseCancelTarget, type Canceled, type CancelTarget } from '../notification/notification.ts';
import { formatFault } from '../domain/faults.ts';
import { newerThanKnown } from '../domain/format.ts';
import { createSparing, type Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { JobLock } from '../queue/job-lock.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import type { Result } from '../notification/outcome.ts';
import { readProgress } from './progress.ts';
import { newer as newerResult } from './decide.ts';
import { ack, type Completed } from './end.ts';
import { logNewer, NEWER_EVERY_MS } from './watch.ts';

/** The wait after the limiter did not answer. A random time of up to the same length is added. */
const AGAIN_MS = 1_000;

/**
 * What a worker does with a job named `cancel`. The job's data is a CancelTarget, and its return value says how many
 * notifications were canceled. A job with other data becomes a dead letter, `invalid`. A job whose data a newer version wrote
 * is put back for a worker that can read it. If the limiter does not answer, the job is put back too, since it is safe to
 * cancel again.
 */
export function createCancelProcessor(
  cancel: (target: CancelTarget) => Promise<Canceled>,
  { log, metrics }: { readonly log: Logger; readonly metrics: Pick<Metrics, 'newerJob'> },
) {
  const sparing = createSparing(NEWER_EVERY_MS);
  return async (job: Job<unknown>, lock: JobLock): Promise<Canceled | Completed> => {
    const jobId = job.id ?? '';
    const newer = newerThanKnown('job data', job.data);
    const end = (result: Result): Promise<Completed> =>
      ack({ lock, newer, progress: readProgress(job.progress) }, result, (error) =>
        log.warn({ jobId, err: error }, NOT_ACKED),
      );
    if (newer !== undefined) {
      metrics.newerJob();
      logNewer({ jobId, newer }, sparing, log);
      return end(newerResult({ passes: job.attemptsStarted }, { random: Math.random }));
    }
    const parsed = parseCancelTarget(job.data);
    if (!parsed.ok) {
      const message = parsed.faults.map(formatFault).join('; ');
      log.warn({ jobId, reason: 'invalid', message }, 'a job named cancel does not fit, and becomes a dead letter');
      return end({ kind: 'dead-letter', reason: 'invalid', message });
    }
    try {
      const canceled = await cancel(parsed.target);
      log.info({ jobId, ...parsed.target, ...canceled }, 'canceled what waits');
      return canceled;
    } catch (error) {
      if (!(error instanceof LimiterUnavailableError)) throw error;
      const waitMs = Math.round(AGAIN_MS * (1 + Math.random()));
      log.warn({ jobId, waitMs }, 'the limiter did not answer, so nothing is known to be canceled; tried again');
      return end({ kind: 'deferred', waitMs, code: 'limiter-unavailable' });
    }
  };
}

const NOT_ACKED = 'Redis did not take the result of a job named cancel; it runs again when its lock has run out';
