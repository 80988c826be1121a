import type { Queue } from 'bullmq';
import { targetOf } from '../notification/device.ts';
import { NewerFormatError } from '../domain/format.ts';
import { defined, objectOr, valueAt } from '../domain/json.ts';
import { outcomeFields, waitOf, DEAD_LETTER_REASONS } from '../notification/outcome.ts';
import type { DeadLetter, DeviceState, Outcome } from '../notification/outcome.ts';
import { firstEnqueuedAtOf, originOf } from '../notification/story.ts';
import { waitsFrom } from '../domain/time.ts';
import {
  deadIdOf,
  ID_KEPT_S,
  isHigh,
  isOrder,
  JOB,
  KEEP_COMPLETED,
  notificationIdOf,
  outcomesKey,
  PRIORITY,
  replayIdOf,
} from '../queue/names.ts';
import { MAX_JOB_TEXT, readJobs, shortened, type RawJob } from '../queue/readable.ts';
import { defineQueueScript } from '../redis/scripts.ts';
import { deadLetterOf, isDecided, readStored, replayProgress } from './letter.ts';
import type { JobFields, StoredDeadLetter } from './letter.ts';

/** The dead letters of one shard. None is lost and none exists twice, even if a process is killed at any instant. */
export interface DeadLetters {
  /** Makes a failed job a dead letter. False if the job is not among the failed jobs (any more). */
  bury(jobId: string): Promise<boolean>;
  /** Makes every failed job a dead letter, also the jobs of workers that were killed before that. Answers how many. */
  sweep(): Promise<number>;
  /**
   * Puts a dead letter back into the queue, and answers its new job id; undefined if the dead letter does not exist (any more).
   * Rejects with NewerFormatError if a newer version wrote it.
   */
  replay(stored: StoredDeadLetter): Promise<string | undefined>;
  /** Removes a dead letter for good, if there are more than `keep` (default 0). `gone` if it does not exist any more. */
  discard(id: string, keep?: number): Promise<DiscardReply>;
  count(): Promise<number>;
  find(id: string): Promise<StoredDeadLetter | undefined>;
  /** At most `limit` dead letters after the first `offset`, oldest first. */
  page(offset: number, limit: number): Promise<StoredDeadLetter[]>;
  /** `limit` dead letters after the newest `offset`, newest first, page by page; others may come or be taken meanwhile. */
  newest(offset: number, limit: number): AsyncIterable<StoredDeadLetter[]>;
  /** All dead letters, oldest first, page by page. The caller and others may replay or remove some meanwhile. */
  walk(): AsyncIterable<StoredDeadLetter[]>;
}

export interface DeadLettersOptions {
  /** The queue `notifications`. */
  readonly queue: Queue;
  /** The queue `dead-letters`, under the same prefix: in a cluster both must lie in one hash slot. */
  readonly deadQueue: Queue;
  /** The present time in epoch milliseconds: the time of death if the job has none, and the time of a replay in its story. */
  readonly now?: () => number;
  /** About how many outcomes the stream keeps; 0 (the default): there is no stream. */
  readonly outcomesMax?: number;
  /**
   * Called for a notification that failed without a pass, because its job stalled too often. Gives back what the notification
   * holds, such as its slot. Answers what its digest consists of, if no other notification leads this digest. Must not reject.
   * Default: nothing is given back; a slot is free again a minute after its time.
   */
  readonly giveBack?: ((failed: Failed) => Promise<DeadLetter['digest']>) | undefined;
  /** Called with each dead letter whose failure no pass decided: its job stalled too often, or BullMQ could not run it. */
  readonly onDiedUnseen?: ((died: Died) => void) | undefined;
}

/** A job that has become a dead letter. */
export interface Died extends Pick<DeadLetter, 'reason' | 'message'> {
  readonly jobId: string;
  readonly name: string;
  /** Absent if the job was an order about notifications. */
  readonly outcome?: Outcome;
}

/** A job that failed without a pass. */
export interface Failed {
  readonly jobId: string;
  readonly data: unknown;
  readonly progress: unknown;
  /** When its notification was enqueued first: epoch milliseconds. */
  readonly firstEnqueuedAt: number;
}

/** How many dead letters are read at once. */
const PAGE = 100;

export function createDeadLetters(options: DeadLettersOptions): DeadLetters {
  const { queue, deadQueue, now = Date.now, outcomesMax = 0, giveBack, onDiedUnseen } = options;
  const moves = createMoves(queue, deadQueue, outcomesMax);

  async function bury(jobId: string): Promise<boolean> {
    const job = await readJob(queue, jobId);
    if (job === undefined) return false;
    const { name, data: notification, progress } = job;
    const isNotification = !isOrder(name);
    const isUnseen = !isDecided(job);
    const firstEnqueuedAt = firstEnqueuedAtOf(job);
    // Done before the move: the job does not run any more, and if the process is killed in between, the job is still here.
    const digest =
      isUnseen && isNotification
        ? await giveBack?.({ jobId, data: notification, progress, firstEnqueuedAt })
        : undefined;
    const data = { ...deadLetterOf(job, now()), ...(digest && { digest }) };
    // The dead letter's id is taken if a producer used the id again, an hour or more after the first job with this id died.
    const ids = (attempt: number) => deadIdOf(jobId, attempt);
    const outcome = isNotification ? outcomeOf(jobId, job, data) : undefined;
    const id = await underFreeId(ids, (id) => moves.bury(jobId, { id, data }, outcome));
    const { reason, message } = data;
    if (id !== undefined && isUnseen) onDiedUnseen?.({ jobId, name, reason, message, ...(outcome && { outcome }) });
    return id !== undefined;
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
      // Always reads from the start, since each job leaves the set when it becomes a dead letter.
      for (let ids = await oldestFailed(); ids.length > 0; ids = await oldestFailed()) {
        const done = await Promise.all(ids.map(buryOrForget));
        buried += done.filter(Boolean).length;
      }
      return buried;
    },
    replay({ id: deadLetterId, letter, newer }) {
      if (newer !== undefined) return Promise.reject(new NewerFormatError(newer));
      const { notification: data, order } = letter;
      const generation = letter.generation + 1;
      const { enqueuedAt } = letter;
      const origin = { ...(enqueuedAt !== undefined && { firstEnqueuedAt: enqueuedAt }), ...originOf(letter.story) };
      const options = { attempts: 0, removeOnComplete: KEEP_COMPLETED, removeOnFail: false, generation, ...origin };
      const priority = isHigh(data) || order !== undefined ? PRIORITY.high : PRIORITY.normal;
      const progress = replayProgress(letter, now());
      const ids = (attempt: number) => replayIdOf(deadLetterId, generation + attempt);
      return underFreeId(ids, (id) =>
        moves.replay(deadLetterId, { id, name: order, data, options, priority, progress }),
      );
    },
    discard: (id, keep = 0) => moves.discard(id, keep),
    count: () => deadQueue.getJobCountByTypes('wait'),
    find: (id) => findDeadLetter(deadQueue, id).catch(undefinedIfNoJob),
    async page(offset, limit) {
      const client = await deadQueue.getBackend().client;
      const ids = await client.lrange(deadQueue.toKey('wait'), -(offset + limit), -(offset + 1));
      return readAll(deadQueue, ids.reverse());
    },
    newest: (offset, limit) => newest(deadQueue, offset, limit),
    walk: () => walk(deadQueue),
  };
}

/** Moves the job under the first free id; undefined if there is nothing to move. */
async function underFreeId(
  ids: (attempt: number) => string,
  move: (id: string) => Promise<MoveReply>,
): Promise<string | undefined> {
  for (let attempt = 0; ; attempt++) {
    const id = ids(attempt);
    const moved = await move(id);
    if (moved === 'moved') return id;
    if (moved === 'gone') return undefined;
  }
}

/** `gone`: the job does not exist any more. `taken`: the new id exists already. In both cases nothing is written. */
type MoveReply = 'moved' | 'gone' | 'taken';

/** `kept`: there are no more dead letters than are to be kept. Only `discarded` has written something. */
type DiscardReply = 'discarded' | 'gone' | 'kept';

/** A job to write into the other queue. */
interface NewJob {
  readonly id: string;
  readonly data: unknown;
}

/** A job to write into the notifications' queue. `progress`: what was delivered before, so that it is not sent again. */
interface ReplayedJob extends NewJob {
  /** Default: the name of a notification's job. */
  readonly name?: string | undefined;
  readonly options: Readonly<Record<string, unknown>>;
  readonly priority: number;
  readonly progress?: object | undefined;
}

/** A job's other keys besides its hash: the list is from BullMQ's removeJobKeys. */
const JOB_PARTS = ['logs', 'dependencies', 'processed', 'failed', 'unsuccessful'];

const BURY = defineQueueScript<MoveReply>(new URL('bury.lua', import.meta.url), 7 + JOB_PARTS.length);
const REPLAY = defineQueueScript<MoveReply>(new URL('replay.lua', import.meta.url), 7 + JOB_PARTS.length);
const DISCARD = defineQueueScript<DiscardReply>(new URL('discard.lua', import.meta.url), 3 + JOB_PARTS.length);

/**
 * The scripts that write BullMQ's keys. Each one moves or removes a job in one step.
 *
 * @param outcomesMax about how many outcomes the stream keeps; 0: there is no stream
 */
export function createMoves(queue: Queue, deadQueue: Queue, outcomesMax = 0) {
  return {
    /** Moves a job from the failed jobs of `queue` into `deadQueue`; its outcome goes to the stream, if there is one. */
    bury: (jobId: string, { id, data }: NewJob, outcome?: Outcome) =>
      BURY(queue, [
        ...[queue.toKey('failed'), queue.toKey(jobId)],
        ...[deadQueue.toKey('wait'), deadQueue.toKey(id), deadQueue.toKey('marker'), deadQueue.toKey('events')],
        ...[outcomesKey(queue.opts.prefix ?? ''), ...partsOf(queue, jobId)],
        ...[jobId, id, JOB, json(data), JSON.stringify({ attempts: 0, jobId: id }), ID_KEPT_S],
        ...(outcome === undefined || outcomesMax === 0 ? [0] : [outcomesMax, ...outcomeFields(outcome)]),
      ]),
    replay: (deadLetterId: string, { id, name = JOB, data, options, priority, progress }: ReplayedJob) =>
      REPLAY(queue, [
        ...[deadQueue.toKey('wait'), deadQueue.toKey(deadLetterId), queue.toKey(id), queue.toKey('prioritized')],
        ...[queue.toKey('pc'), queue.toKey('marker'), queue.toKey('events')],
        ...partsOf(deadQueue, deadLetterId),
        ...[deadLetterId, id, name, json(data), JSON.stringify({ ...options, priority, jobId: id }), priority],
        progress === undefined ? '' : JSON.stringify(progress),
      ]),
    discard: (deadLetterId: string, keep: number) =>
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

/** The outcome of a job that becomes this dead letter. The job's data may be anything, so only usable fields are taken. */
function outcomeOf(jobId: string, job: JobFields, { reason, deadAt, generation }: DeadLetter): Outcome {
  const [recipientId, category] = [textAt(job.data, 'recipientId'), textAt(job.data, 'category')];
  const [sentAt, devices] = [valueAt(job.progress, 'sentAt'), valueAt(job.progress, 'devices')];
  const sent = { sentAt: typeof sentAt === 'number' ? sentAt : undefined };
  return {
    ...defined({ id: textAt(job.data, 'id') ?? notificationIdOf(jobId), recipientId, category, ...sent }),
    ...targetOf(job.data),
    ...{ outcome: 'dead-lettered', reason, generation, enqueuedAt: job.timestamp },
    waitMs: waitOf(waitsFrom(job.timestamp, job.data), sent.sentAt, deadAt),
    devices: Object.fromEntries(Object.entries(objectOr(devices)).filter(hasState)),
  };
}

function hasState(entry: [string, unknown]): entry is [string, DeviceState] {
  return entry[1] === 'delivered' || (DEAD_LETTER_REASONS as readonly unknown[]).includes(entry[1]);
}

/** A text that is longer than this is no valid field of a notification, and does not go into the stream. */
const LONGEST = 256;

function textAt(data: unknown, name: string): string | undefined {
  const value = valueAt(data, name);
  return typeof value === 'string' && value !== '' && value.length <= LONGEST ? value : undefined;
}

/** One dead letter, by the id of its job. */
export async function findDeadLetter(deadQueue: Queue, id: string): Promise<StoredDeadLetter | undefined> {
  return stored(id, await readJob(deadQueue, id));
}

function stored(id: string, job: JobFields | undefined): StoredDeadLetter | undefined {
  return job && readStored(id, job.timestamp, job.data);
}

/** An operator may ask for the id `wait`, which is a key of the queue and not a job. */
function undefinedIfNoJob(error: unknown): undefined {
  if (!(error instanceof Error && error.message.includes('WRONGTYPE'))) throw error;
}

/** One command reads this many, in half the time of single reads. Between two commands Redis can answer others. */
const READ_AT_ONCE = 20;

/** The dead letters that exist. Ids whose jobs do not exist are removed from the queue. */
async function readAll(deadQueue: Queue, ids: readonly string[]): Promise<StoredDeadLetter[]> {
  const parts = Array.from({ length: Math.ceil(ids.length / READ_AT_ONCE) }, (_, part) =>
    ids.slice(part * READ_AT_ONCE, (part + 1) * READ_AT_ONCE),
  );
  const letters = await Promise.all(
    parts.map(async (part) => {
      const jobs = await readJobs(deadQueue, part, BEGINNING);
      return Promise.all(
        part.map(async (id, at) => {
          const letter = stored(id, jobOf(jobs[at]));
          if (letter === undefined) await forgetJob(deadQueue, 'wait', id);
          return letter;
        }),
      );
    }),
  );
  return letters.flat().filter((letter) => letter !== undefined);
}

async function* newest(
  deadQueue: Queue,
  offset: number,
  limit: number,
): AsyncGenerator<StoredDeadLetter[], void, undefined> {
  const client = await deadQueue.getBackend().client;
  const ids = await client.lrange(deadQueue.toKey('wait'), offset, offset + limit - 1);
  for (let from = 0; from < ids.length; from += PAGE) yield await readAll(deadQueue, ids.slice(from, from + PAGE));
}

type PageReply = [left: number, found: number, ...ids: string[]];
const NEXT_IDS = defineQueueScript<PageReply>(new URL('page.lua', import.meta.url), 1);
/** How many ids a walk remembers to find its position again. */
const REMEMBERED = 2 * PAGE;

/**
 * Walks over all dead letters. A page may be empty although others follow. A dead letter that exists all the time is seen
 * exactly once.
 */
async function* walk(deadQueue: Queue): AsyncGenerator<StoredDeadLetter[], void, undefined> {
  let [seen, seenCount]: [readonly string[], number] = [[], 0];
  for (;;) {
    const options = [PAGE, deadQueue.toKey(''), seenCount, ...seen];
    const [left, found, ...ids] = await NEXT_IDS(deadQueue, [deadQueue.toKey('wait'), ...options]);
    if (ids.length === 0) return;
    yield await readAll(deadQueue, ids);
    // The dead letters with the ids before the found one do not exist any more.
    const stillThere = found === 0 ? [] : seen.slice(found - 1);
    seen = [...ids.toReversed(), ...stillThere].slice(0, REMEMBERED);
    seenCount = left + ids.length;
  }
}

const FORGET = defineQueueScript<number>(new URL('forget.lua', import.meta.url), 2);

/** Removes the id of a job that was deleted by hand. Else whole pages of such ids would be read again and again. */
async function forgetJob(queue: Queue, state: 'failed' | 'wait', jobId: string): Promise<void> {
  await FORGET(queue, [queue.toKey(state), queue.toKey(jobId), jobId]);
}

/** If the data is longer than any notification's, only this many bytes are read. */
const BEGINNING = 4_000;

/**
 * Reads a job; undefined if it does not exist. BullMQ's `getJob` is not used, since it throws if a field is not JSON: one such
 * job would stop the whole page that is read with it.
 */
async function readJob(queue: Queue, jobId: string): Promise<JobFields | undefined> {
  const [job] = await readJobs(queue, [jobId], BEGINNING);
  return jobOf(job);
}

function jobOf(job: RawJob | undefined): JobFields | undefined {
  if (job === undefined || job.slice(1).every((value) => value === null)) return undefined;
  const [length, data, timestamp, name, opts, progress, , failedReason, finishedOn] = job;
  return {
    name: name ?? '',
    data: length > MAX_JOB_TEXT ? shortened(data ?? '', length) : parsed(data),
    progress: parsed(progress),
    opts: parsed(opts),
    failedReason: failedReason ?? '',
    ...(finishedOn !== null && { finishedOn: Number(finishedOn) }),
    timestamp: Number(timestamp ?? 0),
  };
}

/** A text that is shorter than this cannot be nested too deeply to be written as JSON again. */
const SHALLOW_LENGTH = 2_000;
/** `parsed` puts so many arrays around a value to test it: a dead letter contains it, and is written with a deeper call stack. */
const MARGIN = Array.from({ length: 500 });

function parsed(text: string | null): unknown {
  if (text === null) return undefined;
  try {
    const value: unknown = JSON.parse(text); // reads any depth
    if (text.length > SHALLOW_LENGTH) JSON.stringify(MARGIN.reduce((inner) => [inner], value)); // throws if it is too deep
    return value;
  } catch {
    return shortened(text);
  }
}
