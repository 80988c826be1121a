import { createHash } from 'node:crypto';
import { QueueKeys, type Job, type KeepJobs } from 'bullmq';
import { newerThanKnown } from '../domain/format.ts';
import { valueAt } from '../domain/json.ts';

/** The queue that producers add to: BullMQ's keys are `{pushpacer}:notifications:…`. */
export const QUEUE = 'notifications';
/** The queue of the dead letters. No worker consumes it. */
export const DEAD_LETTERS = 'dead-letters';
/** The name of the queue of notifications in traces, the same for all shards: `pushpacer:notifications`. */
export function destinationOf(prefix: string): string {
  return `${prefix.replaceAll(/[{}]/g, '')}:${QUEUE}`;
}
/** The name of a notification's job. */
export const JOB = 'push';
/** The name of a job that cancels notifications. */
export const CANCEL = 'cancel';
/** The name of a job that retracts notifications: it cancels those that wait, and takes alerts from devices. */
export const RETRACT = 'retract';
/** Whether a job with this name is an order about notifications, not a notification itself. */
export function isOrder(name: unknown): name is typeof CANCEL | typeof RETRACT {
  return name === CANCEL || name === RETRACT;
}

/**
 * BullMQ takes jobs without a priority first, then jobs with the lowest number. `dueHigh` and `due` are for jobs that a worker
 * has put back, `high` and `normal` for new jobs. Due jobs go before new jobs of their kind: behind 6,000 new jobs they were
 * seconds late. While many jobs are overdue, workers also give `high` to some new jobs of normal priority (prioritise.ts).
 */
export const PRIORITY = { dueHigh: 1, high: 2, due: 3, normal: 10 } as const;
/** The `high` of earlier versions. Clients in other languages may still use this number. */
export const FORMER_HIGH = 5;

/** The part of a job that decides about its priority. */
export type Prioritised = Pick<Job<unknown>, 'name' | 'data' | 'priority'>;

/** The priority that a job gets when it is put back, for the time when it is due again. */
export function priorityWhenDue({ name, data, priority }: Prioritised): number {
  // Whether a notification of a newer version is high cannot be read.
  if (newerThanKnown('job data', data) !== undefined) return priority || PRIORITY.due;
  return isHigh(data) || isOrder(name) ? PRIORITY.dueHigh : PRIORITY.due;
}

/** Whether these job data (any value) are a notification of high priority. */
export function isHigh(data: unknown): boolean {
  return valueAt(data, 'priority') === 'high';
}

/** Whether a worker raised the priority of this new job, so that it goes before due jobs of normal priority. */
export function isRaised({ data, priority }: Pick<Prioritised, 'data' | 'priority'>): boolean {
  return priority === PRIORITY.high && !isHigh(data);
}

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

/**
 * `msg-1` or `msg-1#r1` → `msg-1#r2` at generation 2. A producer's id contains no `#`, so no replay has the id of another
 * notification.
 */
export function replayIdOf(jobId: string, generation: number): string {
  return `${jobId.replace(/(#r\d+)?(#d\d+)?$/, '')}#r${generation}`;
}

/** Only this many replays of a notification are looked for. */
const MOST_REPLAYS = 20;

/** The job ids of a notification's first 20 replays, the first one first. */
export function replayIdsOf(jobId: string): string[] {
  return Array.from({ length: MOST_REPLAYS }, (_, index) => replayIdOf(jobId, index + 1));
}

/** The id of a job's dead letter: `msg-1`; or `msg-1#d2` if two dead letters of earlier jobs with the same id still exist. */
export function deadIdOf(jobId: string, earlier: number): string {
  return earlier === 0 ? jobId : `${jobId}#d${earlier}`;
}

/** A producer may use an id again when its job is gone. So this many more dead letters of an id are looked for. */
const MOST_SAME_ID = 20;

/** The ids that the dead letters of jobs with this id may have. */
export function deadIdsOf(jobId: string): string[] {
  return Array.from({ length: MOST_SAME_ID + 1 }, (_, earlier) => deadIdOf(jobId, earlier));
}

/** The notification's id in a job id: `msg-1#r2` → `msg-1`, `#123` → `123`. */
export function notificationIdOf(jobId: string): string {
  return jobId.replace(/^#/, '').replace(/#[rd]\d+.*$/, '');
}

/** `msg-1#r2` → 2, since this job is the second replay; undefined if the job is no replay. */
export function replayOf(jobId: string): number | undefined {
  const number = /#r(\d+)/.exec(jobId)?.[1];
  return number === undefined ? undefined : Number(number);
}

/** `{pushpacer}:outcomes`: the stream of outcomes. With several shards, each has one. */
export function outcomesKey(prefix: string): string {
  return `${prefix}:outcomes`;
}

/**
 * `{pushpacer}:history`, a hash with the story of each notification that has ended, and `{pushpacer}:history:ends`, a sorted
 * set of the same ids by when their stories were stored. Each shard has its own.
 */
export function historyKeys(prefix: string): { readonly stories: string; readonly ends: string } {
  return { stories: `${prefix}:history`, ends: `${prefix}:history:ends` };
}

/** `{pushpacer}:workers`: the registry of workers. One for all shards: `prefix` is QUEUE_PREFIX itself. */
export function workersKey(prefix: string): string {
  return `${prefix}:workers`;
}

/** `{pushpacer}:losses`: what workers noticed that Redis lost. `prefix` is QUEUE_PREFIX itself. */
export function lossesKey(prefix: string): string {
  return `${prefix}:losses`;
}

/** In a cluster of up to this many masters, with equal shares of the hash slots, each master has a stamp. */
const STAMPS_OF_CLUSTER = 8;

/**
 * `{pushpacer}:stamp`: a key by which workers notice that a Redis lost data (redis/stamp.ts). In a cluster a single master may
 * come back empty, so there are several stamps, spread evenly over the hash slots: `{pushpacer-0-188}:stamp`. `prefix` is
 * QUEUE_PREFIX itself.
 */
export function stampKeys(prefix: string, isCluster: boolean): string[] {
  return shardPrefixes(prefix, isCluster ? STAMPS_OF_CLUSTER : 1).map((each) => `${each}:stamp`);
}

/** `{pushpacer}:write-probe`: never exists. A write that would only change an existing key shows whether Redis takes writes. */
export function writeProbeKey(prefix: string): string {
  return `${prefix}:write-probe`;
}

/** `{pushpacer}:audit`: what operators did. One for all shards: `prefix` is QUEUE_PREFIX itself. */
export function auditKey(prefix: string): string {
  return `${prefix}:audit`;
}

/** `{pushpacer}:note:teacher-42`: what an operator noted about a recipient. `prefix` is QUEUE_PREFIX itself. */
export function noteKey(prefix: string, recipientId: string): string {
  return `${prefix}:note:${recipientId}`;
}

/** `{pushpacer}:broadcast:term-start`: how much of a broadcast was enqueued. */
export function broadcastKey(prefix: string, broadcastId: string): string {
  return `${prefix}:broadcast:${broadcastId}`;
}

/** `{pushpacer}:idempotency:k3V…`: a request of the HTTP API that came with this `Idempotency-Key`. */
export function idempotencyKey(prefix: string, digest: string): string {
  return `${prefix}:idempotency:${digest}`;
}

/**
 * `{pushpacer}:cancellation:GZ3…`: the jobs that wait for a recipient under a cancellation key. The name ends with a digest of
 * both, so that different pairs have different names. `prefix`: the prefix of the recipient's shard.
 */
export function cancellationIndexKey(prefix: string, recipientId: string, cancellationKey: string): string {
  const digest = createHash('sha256').update(JSON.stringify([recipientId, cancellationKey]));
  return `${prefix}:cancellation:${digest.digest('base64url').slice(0, 22)}`;
}

/** `{pushpacer}:shards`: the record of the queues, JSON (layout.ts). `prefix` is QUEUE_PREFIX itself. */
export function layoutKey(prefix: string): string {
  return `${prefix}:shards`;
}

/**
 * `{pushpacer-0-2391}:moving`, `…:moved`, `…:mover`: notes of `reshard` about the jobs that it moves, in a shard's hash slot
 * (reshard.ts).
 */
export function moveKeys(prefix: string): { readonly moving: string; readonly moved: string; readonly mover: string } {
  return { moving: `${prefix}:moving`, moved: `${prefix}:moved`, mover: `${prefix}:mover` };
}

/** How many hash slots a Redis Cluster has. */
export const SLOTS = 16_384;

const CRC_TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  return crc;
});

/**
 * CRC16/XMODEM over the UTF-8 bytes, as Redis Cluster hashes keys
 * (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec).
 *
 * @param before the CRC of the text that comes before
 */
export function crc16(text: string, before = 0): number {
  let crc = before;
  for (const byte of Buffer.from(text)) crc = nextCrc(crc, byte);
  return crc;
}

function nextCrc(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ (CRC_TABLE[(crc >> 8) ^ byte] ?? 0);
}

/**
 * The hash slot of a shard's tag is at most this far from the middle of the shard's share: so masters get equal numbers of
 * shards.
 */
const OFF_MIDDLE = 3;

/**
 * The prefixes of the shards of a new queue. A single shard has the prefix itself. With several, each gets a hash tag of its
 * own: `{pushpacer-0-37}`, `{pushpacer-1-2216}`. The hash slot of each tag is in the middle of the shard's share of all hash
 * slots, so masters that have equal ranges of hash slots have equal numbers of shards, or differ by one.
 *
 * @param taken prefixes that were used before: they are not chosen
 */
export function shardPrefixes(prefix: string, shards: number, taken: ReadonlySet<string> = new Set()): string[] {
  if (shards === 1) return [prefix];
  return Array.from({ length: shards }, (_, shard) => {
    const begin = `${tagOf(prefix)}-${shard}-`;
    const crc = crc16(begin);
    const middle = Math.floor(((shard + 0.5) * SLOTS) / shards);
    for (let salt = 0; ; salt++) {
      const candidate = `{${begin}${salt}}`;
      if (Math.abs((withDigits(crc, salt) % SLOTS) - middle) <= OFF_MIDDLE && !taken.has(candidate)) return candidate;
    }
  });
}

/** The text within the braces of a prefix. */
export function tagOf(prefix: string): string {
  return /\{(.+?)\}/.exec(prefix)?.[1] ?? prefix;
}

/** The CRC of a text and the digits after it. `crc`: of the text. Fast, since thousands of numbers are tried for a shard. */
function withDigits(crc: number, number: number): number {
  return number < 10
    ? nextCrc(crc, 48 + number)
    : nextCrc(withDigits(crc, Math.floor(number / 10)), 48 + (number % 10));
}

/** The shard of a recipient, from 0. All notifications of a recipient are in one queue while the number of shards stays. */
export function shardOf(recipientId: string, shards: number): number {
  return shards === 1 ? 0 : crc16(recipientId) % shards;
}

/** How long an id stays taken after its notification has ended: enqueuing it again within this time adds nothing. */
export const ID_KEPT_S = 3600;

/** The count limits the memory: a delivered job takes 1.7 kB (docs/capacity.md). */
export const KEEP_COMPLETED = { age: ID_KEPT_S, count: 50_000 } as const satisfies KeepJobs;

/** -1 keeps all jobs: a failed job must stay until it has become a dead letter. */
export const KEEP_ALL = { count: -1 } as const satisfies KeepJobs;

/** True for a job that was added without a priority: BullMQ takes such jobs before all others, even before due ones. */
export function isUnprioritised(job: Pick<Job, 'opts'>): boolean {
  return (job.opts.priority ?? 0) === 0;
}

/**
 * Keeps a job in Redis after its end, whatever its producer asked for. With `removeOnFail: true` there would be no dead letter.
 * With `removeOnComplete: 10` BullMQ would keep only ten ended jobs, and the ids of the others could alert twice. Call it on
 * the worker's `active` event, which comes before the processor runs, and before BullMQ fails a job that stalled too often.
 */
export function protect(job: Pick<Job, 'opts'>): void {
  job.opts.removeOnFail = false;
  job.opts.removeOnComplete = KEEP_COMPLETED;
}
