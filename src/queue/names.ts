import { QueueKeys } from 'bullmq';

/** The queue that producers add to: BullMQ's keys are `{pushpacer}:notifications:…`. */
export const QUEUE = 'notifications';
/** The queue that nobody consumes: what cannot be delivered waits here for a replay. */
export const DEAD_LETTERS = 'dead-letters';
/** The braces put every key of a queue, and of its dead letters, into one slot of a Redis Cluster. */
export const DEFAULT_PREFIX = '{pushpacer}';
/** The name of every job. */
export const JOB = 'push';

/**
 * Lower goes first. A job that is due again goes ahead of all that has not been looked at yet: as FIFO behind a
 * backlog of 6,000, due jobs were late by seconds. BullMQ puts jobs without a priority before all of these.
 */
export const PRIORITY = { due: 1, high: 5, normal: 10 } as const;

/** Names of BullMQ's own keys beside those of the jobs: a job called `meta` would share the queue's settings' key. */
const BULLMQ_KEYS = new Set(Object.keys(new QueueKeys().getKeys(QUEUE)));

/**
 * The job id of a notification: its id, but `#123` for `123` and `#meta` for `meta`. BullMQ refuses ids that read as
 * an integer, and takes those that are names of its keys for jobs that exist already. `#` is no character of a
 * notification id, so the two never collide.
 */
export function jobIdOf(notificationId: string): string {
  const isInteger = String(Number.parseInt(notificationId, 10)) === notificationId;
  return isInteger || BULLMQ_KEYS.has(notificationId) ? `#${notificationId}` : notificationId;
}

/** `msg-1`, and `msg-1#r1` → `msg-1#r2` at generation 2. No producer's id can be in its way, for want of a `#`. */
export function replayIdOf(jobId: string, generation: number): string {
  return `${jobId.replace(/(#r\d+)?(#d\d+)?$/, '')}#r${generation}`;
}

/** The notification's id in a job id: `msg-1#r2` → `msg-1`, `#123` → `123`. */
export function notificationIdOf(jobId: string): string {
  return jobId.replace(/^#/, '').replace(/#[rd]\d+.*$/, '');
}
