import type { Queue } from 'bullmq';
import { targetOf } from '../domain/device.ts';
import {
  type Outcome,
  outcomeFields,
  waitOf,
  type DeviceState,
  DEAD_LETTER_REASONS,
  type DeadLetter,
} from '../domain/outcome.ts';
import { waitsFrom } from '../domain/time.ts';
import { PRIORITY, replayIdOf, KEEP_COMPLETED, JOB, outcomesKey, ID_KEPT_S, notificationIdOf } from '../queue/names.ts';
import { defineQueueScript } from '../redis/scripts.ts';
import {
  deadLetterOf,
  isDecided,
  replayProgress,
  findDeadLetter,
  pageOfDeadLetters,
  walkDeadLetters,
  type StoredDeadLetter,
  forgetJob,
  readJob,
  type JobHash,
} from './letter.ts';

export type { StoredDeadLetter } from './letter.ts';

/** The dead letters of one queue. None is lost and none exists twice, even if a process is killed at any instant. */
export interface DeadLetters {
  /** Makes a failed job a dead letter. False if it is not among the failed jobs (any more). */
  bury(jobId: string): Promise<boolean>;
  /** Makes every failed job a dead letter, also those of workers that were killed before they could. Answers how many. */
  sweep(): Promise<number>;
  /** Puts one back into the queue and answers its new job id; undefined if it does not exist (any more). */
  replay(stored: StoredDeadLetter): Promise<string | undefined>;
  /** Removes one for good, if there are more than `keep` (default 0). `gone` if it does not exist any more. */
  discard(id: string, keep?: number): Promise<Discarded>;
  count(): Promise<number>;
  find(id: string): Promise<StoredDeadLetter | undefined>;
  /** At most `limit` after the first `offset`, oldest first. */
  page(offset: number, limit: number): Promise<StoredDeadLetter[]>;
  /** All of them, oldest first, page by page; works while others are replayed or removed. */
  walk(): AsyncIterable<StoredDeadLetter[]>;
}

export interface DeadLettersOptions {
  /** The queue `notifications`. */
  readonly queue: Queue;
  /** The queue `dead-letters`, under the same prefix: in a cluster both must lie in one slot. */
  readonly deadQueue: Queue;
  /** The time of death for a job that failed without one. */
  readonly now?: () => number;
  /** About how many outcomes their stream keeps; 0 (the default): there is no stream. */
  readonly outcomesMax?: number;
  /** Called with each dead letter that no pass of a worker decided on: its job stalled too often, or BullMQ could not run it. */
  readonly onDiedUnseen?: (jobId: string, outcome: Outcome, message: string) => void;
}

const PAGE = 100;

export function createDeadLetters(options: DeadLettersOptions): DeadLetters {
  const { queue, deadQueue, now = Date.now, outcomesMax = 0, onDiedUnseen } = options;
  const moves = createMoves(queue, deadQueue, outcomesMax);

  async function buryJob(jobId: string, job: JobHash): Promise<boolean> {
    const data = deadLetterOf(job, now());
    // The id is taken if a producer has used it again, an hour or more after its first dead letter.
    const ids = (attempt: number) => (attempt === 0 ? jobId : `${jobId}#d${attempt}`);
    const outcome = outcomeOf(jobId, job, data);
    const id = await underFreeId(ids, (id) => moves.bury(jobId, { id, data, options: { attempts: 0 } }, outcome));
    if (id !== undefined && !isDecided(job)) onDiedUnseen?.(jobId, outcome, data.message);
    return id !== undefined;
  }

  async function bury(jobId: string): Promise<boolean> {
    const job = await readJob(queue, jobId);
    return job !== undefined && buryJob(jobId, job);
  }

  async function buryOrForget(jobId: string): Promise<boolean> {
    const isBuried = await bury(jobId);
    if (!isBuried) await forgetJob(queue, 'failed', jobId);
    return isBuried;
  }

  async function oldestFailed(): Promise<string[]> {
    const client = await queue.getBackend().client;
    return client.zrange(queue.toKey('failed'), 0, PAGE - 1);
  }

  return {
    bury,
    async sweep() {
      let buried = 0;
      // From the start each time, since each job leaves the set when it becomes a dead letter.
      for (let ids = await oldestFailed(); ids.length > 0; ids = await oldestFailed()) {
        const done = await Promise.all(ids.map(buryOrForget));
        buried += done.filter(Boolean).length;
      }
      return buried;
    },
    replay({ id: deadLetterId, letter }) {
      const { notification: data } = letter;
      const generation = letter.generation + 1;
      const options = { attempts: 0, removeOnComplete: KEEP_COMPLETED, removeOnFail: false, generation };
      const [priority, progress] = [priorityOf(data), replayProgress(letter)];
      const ids = (attempt: number) => replayIdOf(deadLetterId, generation + attempt);
      return underFreeId(ids, (id) => moves.replay(deadLetterId, { id, data, options, priority, progress }));
    },
    discard: (id, keep = 0) => moves.discard(id, keep),
    count: () => deadQueue.getJobCountByTypes('wait'),
    find: (id) => findDeadLetter(deadQueue, id),
    page: (offset, limit) => pageOfDeadLetters(deadQueue, offset, limit),
    walk: () => walkDeadLetters(deadQueue),
  };
}

/** Moves the job under the first free id; undefined if there is nothing to move. */
async function underFreeId(
  ids: (attempt: number) => string,
  move: (id: string) => Promise<Moved>,
): Promise<string | undefined> {
  for (let attempt = 0; ; attempt++) {
    const id = ids(attempt);
    const moved = await move(id);
    if (moved === 'moved') return id;
    if (moved === 'gone') return undefined;
  }
}

function priorityOf(notification: unknown): number {
  const isHigh = (notification as { readonly priority?: unknown } | null | undefined)?.priority === 'high';
  return isHigh ? PRIORITY.high : PRIORITY.normal;
}

/** `gone`: the job is not there any more. `taken`: the new id exists already. Nothing is written in these two cases. */
type Moved = 'moved' | 'gone' | 'taken';

/** `kept`: there are no more than are to be kept. Nothing is written unless it was discarded. */
type Discarded = 'discarded' | 'gone' | 'kept';

/** A job to write into the other queue. */
interface NewJob {
  readonly id: string;
  readonly data: unknown;
  readonly options: Readonly<Record<string, unknown>>;
}

/** A job to write into the notifications' queue. `progress`: what was delivered before, so that it is not sent again. */
interface ReplayedJob extends NewJob {
  readonly priority: number;
  readonly progress?: object | undefined;
}

/** The scripts that write BullMQ's keys. Each one moves or removes a job in one step. */
export interface Moves {
  /** bury.lua: from the failed jobs of `queue` into `deadQueue`; its outcome goes to the stream, if that keeps any. */
  bury(jobId: string, deadLetter: NewJob, outcome?: Outcome): Promise<Moved>;
  /** replay.lua: from `deadQueue` into `queue`. */
  replay(deadLetterId: string, job: ReplayedJob): Promise<Moved>;
  /** discard.lua: removes it from `deadQueue` for good, if there are more than `keep`. */
  discard(deadLetterId: string, keep: number): Promise<Discarded>;
}

/** A job's other keys besides its hash: the list is from BullMQ's removeJobKeys. */
const JOB_PARTS = ['logs', 'dependencies', 'processed', 'failed', 'unsuccessful'];

const BURY = defineQueueScript<Moved>(new URL('bury.lua', import.meta.url), 7 + JOB_PARTS.length);
const REPLAY = defineQueueScript<Moved>(new URL('replay.lua', import.meta.url), 7 + JOB_PARTS.length);
const DISCARD = defineQueueScript<Discarded>(new URL('discard.lua', import.meta.url), 3 + JOB_PARTS.length);

/** @param outcomesMax about how many outcomes their stream keeps; 0: there is no stream */
export function createMoves(queue: Queue, deadQueue: Queue, outcomesMax = 0): Moves {
  return {
    bury: (jobId, { id, data, options }, outcome) =>
      BURY(queue, [
        ...[queue.toKey('failed'), queue.toKey(jobId)],
        ...[deadQueue.toKey('wait'), deadQueue.toKey(id), deadQueue.toKey('marker'), deadQueue.toKey('events')],
        ...[outcomesKey(queue.opts.prefix ?? ''), ...partsOf(queue, jobId)],
        ...[jobId, id, JOB, json(data), JSON.stringify({ ...options, jobId: id }), ID_KEPT_S],
        ...(outcome === undefined || outcomesMax === 0 ? [0] : [outcomesMax, ...outcomeFields(outcome)]),
      ]),
    replay: (deadLetterId, { id, data, options, priority, progress }) =>
      REPLAY(queue, [
        ...[deadQueue.toKey('wait'), deadQueue.toKey(deadLetterId), queue.toKey(id), queue.toKey('prioritized')],
        ...[queue.toKey('pc'), queue.toKey('marker'), queue.toKey('events')],
        ...partsOf(deadQueue, deadLetterId),
        ...[deadLetterId, id, JOB, json(data), JSON.stringify({ ...options, priority, jobId: id }), priority],
        progress === undefined ? '' : JSON.stringify(progress),
      ]),
    discard: (deadLetterId, keep) =>
      DISCARD(deadQueue, [
        ...[deadQueue.toKey('wait'), deadQueue.toKey(deadLetterId), deadQueue.toKey('events')],
        ...partsOf(deadQueue, deadLetterId),
        ...[deadLetterId, keep],
      ]),
  };
}

/** Missing data is stored as `null`, since JSON has no `undefined`. */
function json(data: unknown): string {
  return JSON.stringify(data ?? null);
}

function partsOf(queue: Queue, jobId: string): string[] {
  return JOB_PARTS.map((part) => `${queue.toKey(jobId)}:${part}`);
}

/** A longer text is no valid field of a notification, and does not go into the stream. */
const LONGEST = 256;

/** The outcome of a job that becomes this dead letter. Its data may be anything, so only usable fields are taken. */
function outcomeOf(jobId: string, job: JobHash, { reason, deadAt, generation }: DeadLetter): Outcome {
  const [recipientId, category] = [text(field(job.data, 'recipientId')), text(field(job.data, 'category'))];
  const sentAt = field(job.progress, 'sentAt');
  const isSent = typeof sentAt === 'number';
  return {
    id: text(field(job.data, 'id')) ?? notificationIdOf(jobId),
    ...(recipientId !== undefined && { recipientId }),
    ...(category !== undefined && { category }),
    ...targetOf(job.data),
    ...{ outcome: 'dead-lettered', reason, generation, enqueuedAt: job.timestamp },
    ...(isSent && { sentAt }),
    waitMs: waitOf(waitsFrom(job.timestamp, job.data), isSent ? sentAt : undefined, deadAt),
    devices: devicesOf(job.progress),
  };
}

function devicesOf(progress: unknown): Record<string, DeviceState> {
  const devices = field(progress, 'devices');
  if (typeof devices !== 'object' || devices === null) return {};
  return Object.fromEntries(
    Object.entries(devices).filter((entry): entry is [string, DeviceState] => isState(entry[1])),
  );
}

function isState(value: unknown): value is DeviceState {
  return value === 'delivered' || (DEAD_LETTER_REASONS as readonly unknown[]).includes(value);
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= LONGEST ? value : undefined;
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
