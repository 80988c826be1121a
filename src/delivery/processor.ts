import type { Job } from 'bullmq';
import type { Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import type { CancellationIndex } from '../queue/cancellation-index.ts';
import { isUnprioritised } from '../queue/retention.ts';
import type { JobLock } from '../queue/job-lock.ts';
import type { Place } from '../queue/notification-worker.ts';
import type { Outcomes } from '../queue/outcomes.ts';
import type { Ended } from '../domain/ended.ts';
import { ack } from './ack.ts';
import { noteKey } from './cancellation-key.ts';
import { createContext } from './context.ts';
import { deliver } from './deliver.ts';
import { endedOf, outcomeOf } from './ended.ts';
import { createPassLog, endOf } from './pass-log.ts';
import type { DeliverParts } from './parts.ts';
import { createTurns } from './turns.ts';

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
