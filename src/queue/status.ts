import type { Job, Queue } from 'bullmq';
import {
  waitOf,
  type DeviceState,
  type Completion,
  type DeadLetter,
  type DeadLetterReason,
  type OutcomeName,
} from '../notification/outcome.ts';
import { describeFound, InputError } from '../domain/faults.ts';
import { waitsFrom } from '../domain/time.ts';
import { defined, ID, ID_FORMAT } from '../domain/json.ts';
import { findJob, isMoving } from './readable.ts';
import { dueAtOfScore, readWhy } from './bullmq-internals.ts';
import { deadIdsOf, jobIdOf, replayIdsOf } from './names.ts';

/** What became of a notification. `state` decides which other fields there are. */
export type NotificationStatus =
  | {
      /** No notification has this id, or it ended more than an hour ago, or it was a dead letter that was removed. */
      readonly state: 'unknown';
    }
  | {
      /** The notification is in the queue. */
      readonly state: 'waiting';
      /** Epoch milliseconds: no worker takes it before this. Absent if a worker may take it now. */
      readonly until?: number;
      /**
       * The cause that alone would make the notification wait longest: `quiet`, `block`, or a limit such as `gap` or `10/1m`.
       * Absent if the notification waits for something else, such as another attempt.
       */
      readonly rule?: string;
      /** Epoch milliseconds: the end of the quiet time or of the block, if `rule` is one of them. */
      readonly ruleUntil?: number;
      /**
       * How many of this recipient's notifications are before this one in its line. Absent if it has no slot in a line, or the
       * limiter's Redis does not answer.
       */
      readonly before?: number;
    }
  | {
      /** A worker has the notification: to send it; or just after a cancel, to end it unsent. */
      readonly state: 'sending';
    }
  | {
      /** The notification has ended, and nothing is left to do. */
      readonly state: 'ended';
      /** `delivered` if at least one device was alerted. */
      readonly outcome: Exclude<OutcomeName, 'dead-lettered'>;
      /** For `superseded` and `merged`: the id of the notification that is sent in its place. */
      readonly by?: string;
      /** It was delivered without sound, vibration or banner, because `onThrottle` or `onQuiet` is `silence`. Absent otherwise. */
      readonly silenced?: true;
      /** It was not delivered, but may have been shown: an earlier attempt was interrupted, or had no answer. Absent otherwise. */
      readonly maybeShown?: true;
      /** Epoch milliseconds. */
      readonly endedAt: number;
      /** When the notification was accepted for the first device: epoch milliseconds. Absent if it was accepted for none. */
      readonly sentAt?: number;
      /** The time from enqueuing to `sentAt`, or to the end if the notification was not sent; milliseconds. */
      readonly waitMs: number;
      /** How each device ended, by label: `apns#0` is the first of `devices`, on APNs. */
      readonly devices: Readonly<Record<string, DeviceState>>;
    }
  | {
      /** The notification could not be delivered, and waits in the dead letters for a replay. */
      readonly state: 'dead-lettered';
      /** Why: one of `DEAD_LETTER_REASONS`. */
      readonly reason: DeadLetterReason;
      /** What went wrong, for people to read. */
      readonly message: string;
      /** Epoch milliseconds. */
      readonly deadAt: number;
      /** How often it was replayed before. */
      readonly generation: number;
    };

/** How many notifications are before a job in its line; undefined if it waits in no line, or the number is not known. */
export type CountBefore = (job: Job<unknown, unknown>) => Promise<number | undefined>;

const UNKNOWN: NotificationStatus = { state: 'unknown' };

/** Throws InputError if no notification can have this id. */
export function checkId(id: unknown): void {
  if (typeof id === 'string' && ID.test(id)) return;
  throw new InputError('unusable id', [{ path: 'id', expected: ID_FORMAT, found: describeFound(id, false) }]);
}

/**
 * Looks for the notification's job under its first id, then for its replays and its dead letters. The recipient is not known,
 * so every shard is searched.
 */
export async function findStatus(
  id: string,
  queues: readonly Queue[],
  openDeadQueues: () => Promise<readonly Queue[]>,
  countBefore: CountBefore,
): Promise<NotificationStatus> {
  const first = jobIdOf(id);
  const inQueue = await firstKnown(queues.map((queue) => statusOf(queue, first, countBefore)));
  if (inQueue.state !== 'unknown') return inQueue;
  const deadQueues = await openDeadQueues();
  const ids = [first, ...replayIdsOf(first)].toReversed(); // the last replay first
  return firstKnown(
    ids.flatMap((jobId) => [
      ...(jobId === first ? [] : queues.map((queue) => statusOf(queue, jobId, countBefore))),
      ...(jobId === first ? deadIdsOf(first).toReversed() : [jobId]).flatMap((deadId) =>
        deadQueues.map((queue) => deadLetterStatus(queue, deadId)),
      ),
    ]),
  );
}

async function firstKnown(looks: readonly Promise<NotificationStatus>[]): Promise<NotificationStatus> {
  return (await Promise.all(looks)).find(({ state }) => state !== 'unknown') ?? UNKNOWN;
}

/**
 * The status that BullMQ's job shows. The state is read before the fields: if the job changes meanwhile, the fields only say
 * more.
 */
async function statusOf(queue: Queue, jobId: string, countBefore: CountBefore): Promise<NotificationStatus> {
  const client = await queue.getBackend().client;
  const [state, due, job] = await Promise.all([
    queue.getJobState(jobId),
    client.zscore(queue.toKey('delayed'), jobId),
    findJob(queue, jobId),
  ]);
  if (job === undefined) return UNKNOWN;
  switch (state) {
    case 'unknown':
      return movingStatus(queue, job);
    case 'completed':
      return endedStatus(job);
    case 'active':
    case 'failed': // it is about to become a dead letter
      return { state: 'sending' };
    case 'delayed':
      return due === null ? { state: 'waiting' } : delayedStatus(queue, job, dueAtOfScore(Number(due)), countBefore);
    default:
      return { state: 'waiting' };
  }
}

/** For a job in no state. Usually only its id is kept, since it is or was a dead letter. Or `reshard` is moving the job. */
async function movingStatus(queue: Queue, job: Job<unknown, unknown>): Promise<NotificationStatus> {
  if (!(await isMoving(queue, job.id ?? ''))) return UNKNOWN;
  return job.finishedOn === undefined ? { state: 'waiting' } : endedStatus(job);
}

/** The worker that put the job back wrote why it waits. A command that has moved the job since wrote its reason too. */
async function delayedStatus(
  queue: Queue,
  job: Job<unknown, unknown>,
  until: number,
  countBefore: CountBefore,
): Promise<NotificationStatus> {
  const noted = (await readWhy(queue, job.id ?? '', until)) ?? (job.progress as Record<string, unknown> | null);
  const { rule, ruleUntil } = noted ?? {};
  if (typeof rule !== 'string') return { state: 'waiting', until };
  const before = await countBefore(job);
  const end = { ruleUntil: typeof ruleUntil === 'number' ? ruleUntil : undefined };
  return defined({ state: 'waiting' as const, until, rule, ...end, before });
}

function endedStatus({ data, returnvalue, timestamp, finishedOn = 0 }: Job<unknown, unknown>): NotificationStatus {
  const ended = (returnvalue ?? {}) as Partial<Completion>;
  // A worker of an older version returned only the outcome.
  const { outcome = 'delivered', by, silenced, maybeShown, sentAt, devices = {} } = ended;
  const waitMs = waitOf(waitsFrom(timestamp, data), sentAt, finishedOn);
  const endedAt = finishedOn;
  return defined({ state: 'ended' as const, outcome, by, silenced, maybeShown, endedAt, sentAt, waitMs, devices });
}

async function deadLetterStatus(deadQueue: Queue, jobId: string): Promise<NotificationStatus> {
  const job = await findJob(deadQueue, jobId);
  if (job === undefined) return UNKNOWN;
  const letter = (job.data ?? {}) as Partial<DeadLetter>;
  const { reason = 'invalid', message = reason, deadAt = job.timestamp, generation = 0 } = letter;
  return { state: 'dead-lettered', reason, message, deadAt, generation };
}
