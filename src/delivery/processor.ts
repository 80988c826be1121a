import type { Job } from 'bullmq';
import { doubledMs } from '../domain/time.ts';
import { errorChain } from '../domain/error-chain.ts';
import type { Outcome } from '../domain/outcome.ts';
import { redact } from '../domain/redact.ts';
import type { Logger } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { isUnprioritised } from '../queue/retention.ts';
import type { DeliverParts, Pass } from './context.ts';
import { deliver, type Result } from './deliver.ts';
import { readProgress, type Progress } from './progress.ts';
import { createTurns } from './turns.ts';
import { settle, type Hands, type Settled } from './settle.ts';

export interface ProcessorParts extends Omit<DeliverParts, 'turns'> {
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'outcome' | 'woken' | 'unprioritised'>;
  /** Fires when the grace of a stopping worker is over. */
  readonly signal: AbortSignal;
}

/** The longest wait after a stall. */
const MAX_SPREAD_MS = 60_000;

/** What is done with each job. */
export type Processor = (hands: Hands) => Promise<Settled>;

/** One pass of a job: delivered as far as it goes, told in one log line, then settled. */
export function createProcessor(given: ProcessorParts): Processor {
  const parts = { ...given, turns: createTurns() };
  // What is told of each pass has no secret fields: looking for them would be a third of the cost of a line.
  const lines = given.log.child({}, { redact: [] });
  const warnOnce = createUnprioritisedWarning(parts);
  return async (hands) => {
    const { job } = hands;
    if (isUnprioritised(job)) warnOnce(job);
    const pass = passOf(hands, parts.signal);
    if (pass.progress.dueAt !== undefined) parts.metrics.woken(parts.now() - pass.progress.dueAt);

    const result = await resultOf(hands, pass, parts);
    if (result.surprise !== undefined) tellSurprise(pass, result.surprise, parts);
    tell(pass, result, lines, parts.metrics);
    return settle(hands, result, (error) => tellLetGo(job, error, parts));
  };
}

function resultOf({ job, lockMs }: Pick<Hands, 'job' | 'lockMs'>, pass: Pass, parts: DeliverParts): Promise<Result> {
  const progress = arrived(pass.progress);
  const spreadMs = spreadAfterStalls(job.stalledCounter, progress, lockMs, parts.random());
  if (spreadMs > 0) {
    const outcome = { kind: 'held', waitMs: spreadMs, code: 'stalled-before' } as const;
    return Promise.resolve({ outcome, progress: { ...pass.progress, dueAt: undefined, stalls: job.stalledCounter } });
  }
  return deliver(progress === pass.progress ? pass : { ...pass, progress }, parts);
}

/**
 * A job that came back from a worker that went silent, for the second time or more, waits by chance before it is tried: one
 * that takes its workers down with it should not do so to the same companions each time, which would be held to be the
 * cause as well.
 */
function spreadAfterStalls(stalls: number, { stalls: waited = 0 }: Progress, lockMs: number, random: number): number {
  if (stalls < 2 || stalls <= waited) return 0;
  return Math.ceil(random * doubledMs(lockMs, MAX_SPREAD_MS, stalls - 2));
}

function passOf({ job, lease }: Pick<Hands, 'job' | 'lease'>, signal: AbortSignal): Pass {
  const progress = readProgress(job.progress);
  return {
    jobId: job.id ?? '',
    data: job.data as unknown,
    progress,
    enqueuedAt: job.timestamp,
    // A worker that died may have sent without a word: then nobody knows.
    isUnsent: progress.unsent === true && job.stalledCounter === 0,
    signal,
    lease,
  };
}

/** It is here: what was noted for its coming back is over. */
function arrived(progress: Progress): Progress {
  return progress.dueAt === undefined ? progress : { ...progress, dueAt: undefined };
}

function tell(pass: Pass, { outcome, progress }: Result, log: Logger, metrics: ProcessorParts['metrics']): void {
  metrics.outcome(outcome);
  const line = lineOf(pass, outcome, progress);
  if (outcome.kind === 'dead-letter') log.warn(line, 'dead-lettered');
  else if (outcome.kind === 'yielded')
    log.warn(line, 'not sent: this worker was silent for too long, the job is not its own any more');
  else log.info(line, outcome.kind);
}

/** Where it came from, without the text of the notification. */
function tellSurprise({ jobId, data }: Pass, thrown: unknown, { log }: ProcessorParts): void {
  const isError = thrown instanceof Error;
  const error = redact(`${isError ? thrown.name : 'thrown'}: ${errorChain(thrown)}`, data);
  const where = isError ? thrown.stack?.split('\n').filter((line) => line.startsWith('    at ')) : undefined;
  log.error({ jobId, error, where }, 'a pass failed in a way that no outcome foresaw');
}

function tellLetGo({ id }: Job, error: unknown, { log }: ProcessorParts): void {
  log.warn({ jobId: id, err: error }, 'a job was let go; it comes back by its lock');
}

/** With the ids that a reader of the log looks for, where the data has them. */
function lineOf({ jobId, data }: Pass, outcome: Outcome, { tries }: Progress): Record<string, unknown> {
  const { id, recipientId, category } = (data ?? {}) as Record<string, unknown>;
  const { kind, ...rest } = outcome;
  return {
    jobId,
    id: shortText(id), // pino leaves out what is undefined
    recipientId: shortText(recipientId),
    category: shortText(category),
    outcome: kind === 'dead-letter' ? 'dead-lettered' : kind,
    ...rest,
    tries,
  };
}

function shortText(value: unknown): string | undefined {
  return typeof value === 'string' && value.length <= 256 ? value : undefined;
}

function createUnprioritisedWarning({ log, metrics }: ProcessorParts): (job: Job) => void {
  let warned = false;
  return (job) => {
    metrics.unprioritised();
    if (warned) return;
    warned = true;
    log.warn(
      { jobId: job.id },
      'a job without a priority: BullMQ puts such jobs before every due one; add with priority 10',
    );
  };
}
