import type { Job } from 'bullmq';
import { parseNotification } from '../domain/notification.ts';
import { redact } from '../domain/redact.ts';
import { DEAD_LETTER_REASONS, type DeadLetter, type DeadLetterReason, type FailedAttempt } from '../domain/outcome.ts';

/** What is read of a job that failed for good. */
export type FailedJob = Pick<Job, 'data' | 'progress' | 'failedReason' | 'finishedOn' | 'opts'>;

/**
 * The dead letter of a failed job. The processor has left reason and attempts in the job's progress, as
 * `{ dead: { reason, message }, attempts }`; where it never came to that, BullMQ's own words have to do.
 */
export function deadLetterOf(job: FailedJob, now: number): DeadLetter {
  return {
    notification: job.data as unknown,
    ...verdictOf(job),
    attempts: attemptsOf(job.progress),
    deadAt: job.finishedOn ?? now,
    generation: generationOf(job.opts),
  };
}

/** A replayed job carries its generation in its options, since its data is the producer's alone. */
export function generationOf(options: object): number {
  const { generation } = options as { readonly generation?: unknown };
  return typeof generation === 'number' ? generation : 0;
}

type Verdict = Pick<DeadLetter, 'reason' | 'message'>;

function verdictOf({ data, progress, failedReason }: FailedJob): Verdict {
  const dead = field(progress, 'dead');
  const [reason, message] = [field(dead, 'reason'), field(dead, 'message')];
  if (isReason(reason) && typeof message === 'string') return { reason, message };
  return { reason: reasonOf(failedReason, data), message: redact(failedReason, data) };
}

function reasonOf(failedReason: string, data: unknown): DeadLetterReason {
  // BullMQ's words for a job that took its workers down with it, or was held by ones that were killed.
  if (/^job (stalled|started) more than allowable limit$/.test(failedReason)) return 'stalled';
  return parseNotification(data).ok ? 'attempts-exhausted' : 'invalid';
}

function attemptsOf(progress: unknown): FailedAttempt[] {
  const attempts = field(progress, 'attempts');
  return Array.isArray(attempts) ? attempts.filter(isAttempt) : [];
}

function isAttempt(value: unknown): value is FailedAttempt {
  const device = field(value, 'device');
  const isDevice = device === undefined || typeof device === 'string';
  return typeof field(value, 'at') === 'number' && typeof field(value, 'error') === 'string' && isDevice;
}

function isReason(value: unknown): value is DeadLetterReason {
  return (DEAD_LETTER_REASONS as readonly unknown[]).includes(value);
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
