import { createHash } from 'node:crypto';
import { QueueKeys } from 'bullmq';

/** The queue that producers add to: BullMQ's keys are `{pushpacer}:notifications:…`. */
export const QUEUE = 'notifications';
/** The queue of the dead letters. No worker consumes it. */
export const DEAD_LETTERS = 'dead-letters';
/** The name of a notification's job. */
export const JOB = 'push';
/** The name of a job that cancels notifications. */
export const CANCEL = 'cancel';

/**
 * The lower number is taken first. A job that is due goes before all new jobs: when it had to wait behind a backlog of 6,000, it
 * was seconds late. BullMQ takes jobs without a priority before all of these.
 */
export const PRIORITY = { due: 1, high: 5, normal: 10 } as const;

/** Names of BullMQ's own keys: a job with the id `meta` would have the same key as the queue's settings. */
const BULLMQ_KEYS = new Set(Object.keys(new QueueKeys().getKeys(QUEUE)));

/**
 * The job id of a notification: its id, but `#123` for `123` and `#meta` for `meta`. BullMQ refuses integers as ids, and takes
 * names of its own keys for jobs that exist already. A notification id contains no `#`, so no two ids become the same.
 */
export function jobIdOf(notificationId: string): string {
  const isInteger = String(Number.parseInt(notificationId, 10)) === notificationId;
  return isInteger || BULLMQ_KEYS.has(notificationId) ? `#${notificationId}` : notificationId;
}

/** `msg-1` or `msg-1#r1` → `msg-1#r2` at generation 2. A producer's id contains no `#`, so it is never the same. */
export function replayIdOf(jobId: string, generation: number): string {
  return `${jobId.replace(/(#r\d+)?(#d\d+)?$/, '')}#r${generation}`;
}

/** The job ids of the first `most` replays, the first one first. */
export function replayIdsOf(jobId: string, most: number): string[] {
  return Array.from({ length: most }, (_, index) => replayIdOf(jobId, index + 1));
}

/** The notification's id in a job id: `msg-1#r2` → `msg-1`, `#123` → `123`. */
export function notificationIdOf(jobId: string): string {
  return jobId.replace(/^#/, '').replace(/#[rd]\d+.*$/, '');
}

/** Which replay of a dead letter a job is: `msg-1#r2` → 2; undefined if it is none. */
export function replayOf(jobId: string): number | undefined {
  const number = /#r(\d+)/.exec(jobId)?.[1];
  return number === undefined ? undefined : Number(number);
}

/** `{pushpacer}:outcomes`; with several shards, each has one. */
export function outcomesKey(prefix: string): string {
  return `${prefix}:outcomes`;
}

/** `{pushpacer}:workers`: who lives. One for all shards: `prefix` is QUEUE_PREFIX itself. */
export function workersKey(prefix: string): string {
  return `${prefix}:workers`;
}

/** `{pushpacer}:broadcast:term-start`: how much of a broadcast was enqueued. */
export function broadcastKey(prefix: string, broadcastId: string): string {
  return `${prefix}:broadcast:${broadcastId}`;
}

/**
 * `{pushpacer}:cancellation:GZ3…`: what waits for a recipient under a cancellation key. A digest, so that no two pairs of texts make
 * the same key. `prefix` is the one of the recipient's shard.
 */
export function cancellationIndexKey(prefix: string, recipientId: string, cancellationKey: string): string {
  const digest = createHash('sha256').update(JSON.stringify([recipientId, cancellationKey]));
  return `${prefix}:cancellation:${digest.digest('base64url').slice(0, 22)}`;
}
