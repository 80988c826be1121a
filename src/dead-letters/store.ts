import type { Queue } from 'bullmq';
import { targetOf } from '../notification/device.ts';
import { NewerFormatError } from '../domain/format.ts';
import { objectOr, valueAt } from '../domain/json.ts';
import { outcomeFields, waitOf, DEAD_LETTER_REASONS } from '../notification/outcome.ts';
import type { DeadLetter, DeviceState, Outcome } from '../notification/outcome.ts';
import { firstEnqueuedAtOf, originOf } from '../notification/story.ts';
import { waitsFrom } from '../domain/time.ts';
import { ID_KEPT_S, JOB, KEEP_COMPLETED, notificationIdOf, outcomesKey, PRIORITY, replayIdOf } from '../queue/names.ts';
import { MAX_JOB_TEXT, readJobs, shortened, type RawJob } from '../queue/readable.ts';
import { defineQueueScript } from '../redis/scripts.ts';
import { deadLetterOf, isDecided, readStored, replayProgress } from './letter.ts';
import type { JobFields, StoredDeadLetter } from './letter.ts';

/** The dead letters of one queue. None is lost and none exists twice, even if a process is killed at any instant. */
export interface DeadLetters {
  /** Makes a failed job a dead letter. False if it is not among the failed jobs (any more). */
  bury(jobId: string): Promise<boolean>;
  /** Makes every failed job a dead letter, also those of workers that were killed before they could. Answers how many. */
  sweep(): Promise<number>;
  /**
   * Puts one back into the queue and answers its new job id; undefined if it does not exist (any more). Rejects with
   * NewerFormatError if a newer version wrote it.
   */
  replay(stored: StoredDeadLetter): Promise<string | undefined>;
  /** Removes one for good, if there are more than `keep` (default 0). `gone` if it does not exist any more. */
  discard(id: string, keep?: number): Promise<DiscardReply>;
  count(): Promise<number>;
  find(id: string): Promise<StoredDeadLetter | undefined>;
  /** At most `limit` after the first `offset`, oldest first. */
  page(offset: number, limit: number): Promise<StoredDeadLetter[]>;
  /** At most `limit` after the newest `offset`, newest first, page by page; works while others come or are taken away. */
  newest(offset: number, limit: number): AsyncIterable<StoredDeadLetter[]>;
  /** All of them, oldest first, page by page; works while some are replayed or removed, by the caller too. */
  walk(): AsyncIterable<StoredDeadLetter[]>;
}

export interface DeadLettersOptions {
  /** The queue `notifications`. */
  readonly queue: Queue;
  /** The queue `dead-letters`, under the same prefix: in a cluster both must lie in one slot. */
  readonly deadQueue: Queue;
  /** The time of death for a job that failed without one, and of a replay in its story. */
  readonly now?: () => number;
  /** About how many outcomes their stream keeps; 0 (the default): there is no stream. */
  readonly outcomesMax?: number;
  /**
   * Gives back what a notification holds while it waits that failed without a pass: it stalled too often. Answers what its digest is made
   * of if nobody else leads it, and must not reject. Default: nothing is given back; a slot is free again a minute after its time.
   */
  readonly giveBack?: ((failed: Failed) => Promise<DeadLetter['digest']>) | undefined;
  /** Called with each dead letter that no pass of a worker decided on: its job stalled too often, or BullMQ could not run it. */
  readonly onDiedUnseen?: (jobId: string, outcome: Outcome, message: string) => void;
}

/** A job that failed without a pass. */
export interface Failed {
  readonly jobId: string;
  readonly data: unknown;
  readonly progress: unknown;
  /** When its notification was enqueued first: epoch milliseconds. */
  readonly firstEnqueuedAt: number;
}

/** How many are read at once. */
const PAGE = 100;

export function createDeadLetters(options: DeadLettersOptions): DeadLetters {
  const { queue, deadQueue, now = Date.now, outcomesMax = 0, giveBack, onDiedUnseen } = options;
  const moves = createMoves(queue, deadQueue, outcomesMax);

  async function bury(jobId: string): Promise<boolean> {
    const job = await readJob(queue, jobId);
    if (job === undefined) return false;
    const { data: notification, progress } = job;
    const firstEnqueuedAt = firstEnqueuedAtOf(job);
    // Before the move: the job does not run any more, and a process that is killed in between leaves it here.
    const digest = isDecided(job)
      ? undefined
      : await giveBack?.({ jobId, data: notification, progress, firstEnqueuedAt });
    const data = { ...deadLetterOf(job, now()), ...(digest && { digest }) };
    // The id is taken if a producer has used it again, an hour or more after its first dead letter.
    const ids = (attempt: number) => (attempt === 0 ? jobId : `${jobId}#d${attempt}`);
    const outcome = outcomeOf(jobId, job, data);
    const id = await underFreeId(ids, (id) => moves.bury(jobId, { id, data }, outcome));
    if (id !== undefined && !isDecided(job)) onDiedUnseen?.(jobId, outcome, data.message);
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
      // From the start each time, since each job leaves the set when it becomes a dead letter.
      for (let ids = await oldestFailed(); ids.length > 0; ids = await oldestFailed()) {
        const done = await Promise.all(ids.map(buryOrForget));
        buried += done.filter(Boolean).length;
      }
      return buried;
    },
    replay({ id: deadLetterId, letter, newer }) {
      if (newer !== undefined) return Promise.reject(new NewerFormatError(newer));
      const { notification: data } = letter;
      const generation = letter.generation + 1;
      const { enqueuedAt } = letter;
      const origin = { ...(enqueuedAt !== undefined && { firstEnqueuedAt: enqueuedAt }), ...originOf(letter.story) };
      const options = { attempts: 0, removeOnComplete: KEEP_COMPLETED, removeOnFail: false, generation, ...origin };
      const priority = valueAt(data, 'priority') === 'high' ? PRIORITY.high : PRIORITY.normal;
      const progress = replayProgress(letter, now());
      const ids = (attempt: number) => replayIdOf(deadLetterId, generation + attempt);
      return underFreeId(ids, (id) => moves.replay(deadLetterId, { id, data, options, priority, progress }));
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

/** `gone`: the job is not there any more. `taken`: the new id exists already. Nothing is written in these two cases. */
type MoveReply = 'moved' | 'gone' | 'taken';

/** `kept`: there are no more than are to be kept. Nothing is written unless it was discarded. */
type DiscardReply = 'discarded' | 'gone' | 'kept';

/** A job to write into the other queue. */
interface NewJob {
  readonly id: string;
  readonly data: unknown;
}

/** A job to write into the notifications' queue. `progress`: what was delivered before, so that it is not sent again. */
interface ReplayedJob extends NewJob {
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
 * @param outcomesMax about how many outcomes their stream keeps; 0: there is no stream
 */
export function createMoves(queue: Queue, deadQueue: Queue, outcomesMax = 0) {
  return {
    /** From the failed jobs of `queue` into `deadQueue`; its outcome goes to the stream, if there is one. */
    bury: (jobId: string, { id, data }: NewJob, outcome?: Outcome) =>
      BURY(queue, [
        ...[queue.toKey('failed'), queue.toKey(jobId)],
        ...[deadQueue.toKey('wait'), deadQueue.toKey(id), deadQueue.toKey('marker'), deadQueue.toKey('events')],
        ...[outcomesKey(queue.opts.prefix ?? ''), ...partsOf(queue, jobId)],
        ...[jobId, id, JOB, json(data), JSON.stringify({ attempts: 0, jobId: id }), ID_KEPT_S],
        ...(outcome === undefined || outcomesMax === 0 ? [0] : [outcomesMax, ...outcomeFields(outcome)]),
      ]),
    /** From `deadQueue` into `queue`. */
    replay: (deadLetterId: string, { id, data, options, priority, progress }: ReplayedJob) =>
      REPLAY(queue, [
        ...[deadQueue.toKey('wait'), deadQueue.toKey(deadLetterId), queue.toKey(id), queue.toKey('prioritized')],
        ...[queue.toKey('pc'), queue.toKey('marker'), queue.toKey('events')],
        ...partsOf(deadQueue, deadLetterId),
        ...[deadLetterId, id, JOB, json(data), JSON.stringify({ ...options, priority, jobId: id }), priority],
        progress === undefined ? '' : JSON.stringify(progress),
      ]),
    /** Removes it from `deadQueue` for good, if there are more than `keep`. */
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

/** The outcome of a job that becomes this dead letter. Its data may be anything, so only usable fields are taken. */
function outcomeOf(jobId: string, job: JobFields, { reason, deadAt, generation }: DeadLetter): Outcome {
  const [recipientId, category] = [textAt(job.data, 'recipientId'), textAt(job.data, 'category')];
  const [sentAt, devices] = [valueAt(job.progress, 'sentAt'), valueAt(job.progress, 'devices')];
  const isSent = typeof sentAt === 'number';
  return {
    id: textAt(job.data, 'id') ?? notificationIdOf(jobId),
    ...(recipientId !== undefined && { recipientId }),
    ...(category !== undefined && { category }),
    ...targetOf(job.data),
    ...{ outcome: 'dead-lettered', reason, generation, enqueuedAt: job.timestamp },
    ...(isSent && { sentAt }),
    waitMs: waitOf(waitsFrom(job.timestamp, job.data), isSent ? sentAt : undefined, deadAt),
    devices: Object.fromEntries(Object.entries(objectOr(devices)).filter(hasState)),
  };
}

function hasState(entry: [string, unknown]): entry is [string, DeviceState] {
  return entry[1] === 'delivered' || (DEAD_LETTER_REASONS as readonly unknown[]).includes(entry[1]);
}

/** A longer text is no valid field of a notification, and does not go into the stream. */
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

/** Somebody may ask for the id `wait`, which is a key of the queue and no job. */
function undefinedIfNoJob(error: unknown): undefined {
  if (!(error instanceof Error && error.message.includes('WRONGTYPE'))) throw error;
}

/** So many are read by one command: half the time of single reads, and Redis answers others in between. */
const READ_AT_ONCE = 20;

/** Those that exist. Other ids are removed from the queue. */
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

/** A page may be empty although others follow. A dead letter that exists all the time is seen exactly once. */
async function* walk(deadQueue: Queue): AsyncGenerator<StoredDeadLetter[], void, undefined> {
  let [seen, seenCount]: [readonly string[], number] = [[], 0];
  for (;;) {
    const options = [PAGE, deadQueue.toKey(''), seenCount, ...seen];
    const [left, found, ...ids] = await NEXT_IDS(deadQueue, [deadQueue.toKey('wait'), ...options]);
    if (ids.length === 0) return;
    yield await readAll(deadQueue, ids);
    // The ids before the one that was found do not exist any more.
    const stillThere = found === 0 ? [] : seen.slice(found - 1);
    seen = [...ids.toReversed(), ...stillThere].slice(0, REMEMBERED);
    seenCount = left + ids.length;
  }
}

const FORGET = defineQueueScript<number>(new URL('forget.lua', import.meta.url), 2);

/** Removes the id of a job that was deleted by hand. Otherwise whole pages of such ids would be read again and again. */
async function forgetJob(queue: Queue, state: 'failed' | 'wait', jobId: string): Promise<void> {
  await FORGET(queue, [queue.toKey(state), queue.toKey(jobId), jobId]);
}

/** Of data that is longer than any notification's, so many bytes are read. */
const BEGINNING = 4_000;

/**
 * Reads a job; undefined if it does not exist. Not by BullMQ's `getJob`, which throws if a field is not JSON: one such job would
 * stop the whole page that is read with it.
 */
async function readJob(queue: Queue, jobId: string): Promise<JobFields | undefined> {
  const [job] = await readJobs(queue, [jobId], BEGINNING);
  return jobOf(job);
}

function jobOf(job: RawJob | undefined): JobFields | undefined {
  if (job === undefined || job.slice(1).every((value) => value === null)) return undefined;
  const [length, data, timestamp, , opts, progress, , failedReason, finishedOn] = job;
  return {
    data: length > MAX_JOB_TEXT ? shortened(data ?? '', length) : parsed(data),
    progress: parsed(progress),
    opts: parsed(opts),
    failedReason: failedReason ?? '',
    ...(finishedOn !== null && { finishedOn: Number(finishedOn) }),
    timestamp: Number(timestamp ?? 0),
  };
}

/** A shorter text cannot be nested too deeply to be written again. */
const SHALLOW_LENGTH = 2_000;
/** Some extra depth: the value becomes a part of a dead letter, and is written with a deeper call stack than here. */
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
