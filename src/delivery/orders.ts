import type { Job } from 'bullmq';
import {
  parseCancelTarget,
  parseRetractTarget,
  type Canceled,
  type CancelTarget,
  type Retracted,
  type RetractTarget,
} from '../notification/notification.ts';
import { formatFault } from '../domain/faults.ts';
import { newerThanKnown } from '../domain/format.ts';
import { createSparing, type Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { JobLock } from '../queue/job-lock.ts';
import type { Place } from '../queue/notification-worker.ts';
import { CANCEL } from '../queue/names.ts';
import { LimiterUnavailableError } from '../redis/deadline.ts';
import type { Result } from '../notification/outcome.ts';
import { meantBy, type Meant } from '../notification/retraction.ts';
import { readProgress } from './progress.ts';
import { backoffMs, newer as newerResult } from './decide.ts';
import { ack, type Completed } from './end.ts';
import { logNewer, NEWER_EVERY_MS } from './watch.ts';

/** The wait after the limiter did not answer. A random time of up to the same length is added. */
const AGAIN_MS = 1_000;
/** The waits before a retract is tried again while a notification is being sent. A send may take hours in an outage. */
const OPEN = { backoffBaseMs: 1_000, backoffMaxMs: 30_000 };

export interface OrderParts {
  readonly cancel: (target: CancelTarget) => Promise<Canceled>;
  /**
   * `meant`: if the target is a cancellation key, other notifications are left as they are. `isOpen`: some notifications are
   * being sent, so the retract must be repeated.
   */
  readonly retract: (
    target: RetractTarget,
    meant: Meant,
  ) => Promise<{ readonly retracted: Retracted; readonly isOpen: boolean }>;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'newerJob'>;
}

/**
 * What a worker does with a job named `cancel` or `retract`. The job's data is a CancelTarget or a RetractTarget, and its
 * return value says how many notifications it was about. A job with other data becomes a dead letter, `invalid`.
 *
 * The job is put back in three cases: a newer version wrote its data (a worker that can read them takes it), the limiter does
 * not answer (it is safe to repeat), or a notification that is to be retracted is still being sent.
 */
export function createOrderProcessor({ cancel, retract, log, metrics }: OrderParts) {
  const sparing = createSparing(NEWER_EVERY_MS);
  return async (job: Job<unknown>, lock: JobLock, place: Place): Promise<Canceled | Completed> => {
    const { id: jobId = '', name } = job;
    const newer = newerThanKnown('job data', job.data);
    const end = (result: Result): Promise<Completed> =>
      ack({ lock, newer, progress: readProgress(job.progress) }, result, (error) =>
        log.warn({ jobId, err: error }, `Redis did not take the result of a job named ${name}; ${AGAIN}`),
      );
    if (newer !== undefined) {
      metrics.newerJob();
      logNewer({ jobId, newer }, sparing, log);
      return end(newerResult({ passes: job.attemptsStarted, place }, { random: Math.random }));
    }
    const parsed = name === CANCEL ? parseCancelTarget(job.data) : parseRetractTarget(job.data);
    if (!parsed.ok) {
      const message = parsed.faults.map(formatFault).join('; ');
      log.warn({ jobId, reason: 'invalid', message }, `a job named ${name} does not fit, and becomes a dead letter`);
      return end({ kind: 'dead-letter', reason: 'invalid', message });
    }
    const { target } = parsed;
    try {
      if (name === CANCEL) {
        const canceled = await cancel(target);
        log.info({ jobId, ...target, ...canceled }, 'canceled what waits');
        return canceled;
      }
      const { retracted, isOpen } = await retract(target, meantBy(job));
      log.info({ jobId, ...target, ...retracted }, isOpen ? 'retracted; some are being sent' : 'retracted');
      if (!isOpen) return { ...CANCELED, ...retracted };
      const waitMs = backoffMs(Math.min(job.attemptsStarted, 10), OPEN, 0, Math.random());
      return await end({ kind: 'deferred', waitMs, code: 'being-sent' });
    } catch (error) {
      if (!(error instanceof LimiterUnavailableError)) throw error;
      const waitMs = Math.round(AGAIN_MS * (1 + Math.random()));
      log.warn({ jobId, waitMs }, `the limiter did not answer, so this ${name} is not known to be done; tried again`);
      return end({ kind: 'deferred', waitMs, code: 'limiter-unavailable' });
    }
  };
}

/** A part of what a retract returns. If its job has taken the id of a notification, `producer.status` answers this for the id. */
const CANCELED = { outcome: 'canceled', devices: {} } as const;
const AGAIN = 'it runs again when its lock has run out';
