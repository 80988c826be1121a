import type { Queue } from 'bullmq';
import { parseNotification, PLATFORMS, type Platform } from '../domain/notification.ts';
import { DEAD_LETTER_REASONS, type DeadLetter, type DeadLetterReason, type FailedAttempt } from '../domain/outcome.ts';
import { redact } from '../domain/redact.ts';
import { hasStalled } from '../queue/bullmq-internals.ts';
import { MAX_JOB_TEXT, shortened } from '../queue/readable.ts';
import { defineQueueScript } from '../redis/scripts.ts';

/** The fields that are read of a failed job. */
export type FailedJob = Omit<JobHash, 'timestamp'>;

/**
 * The dead letter of a failed job. The processor stores reason and attempts in the job's progress, as
 * `{ dead: { reason, message }, attempts, devices }`. Without these, BullMQ's own failure message is used.
 */
export function deadLetterOf(job: FailedJob, now: number): DeadLetter {
  const delivered = deliveredOf(job.progress);
  return {
    notification: job.data,
    ...verdictOf(job),
    attempts: attemptsOf(job.progress),
    deadAt: job.finishedOn ?? now,
    generation: generationOf(job.opts),
    ...(delivered.length > 0 && { delivered }),
  };
}

/** Whether a pass of a worker decided that the job fails, and so has logged and counted it. */
export function isDecided({ progress }: Pick<FailedJob, 'progress'>): boolean {
  return isReason(field(field(progress, 'dead'), 'reason'));
}

/** A replayed job has its generation in its options, because its data stays exactly the producer's. */
function generationOf(options: unknown): number {
  const generation = field(options, 'generation');
  return typeof generation === 'number' ? generation : 0;
}

/**
 * The first progress of a replayed job: devices that were alerted before are marked as delivered, so they are skipped.
 * delivery/progress.ts reads it.
 */
export function replayProgress({ delivered = [] }: DeadLetter): object | undefined {
  if (delivered.length === 0) return undefined;
  return { devices: Object.fromEntries(delivered.map((label) => [label, 'delivered'])) };
}

/** Reads a job of `dead-letters`. A job that no worker of this project wrote gets the reason `invalid`; it can be replayed too. */
export function readDeadLetter(data: unknown): DeadLetter {
  const [reason, message] = [field(data, 'reason'), field(data, 'message')];
  const [deadAt, delivered] = [field(data, 'deadAt'), field(data, 'delivered')];
  const isLetter = isReason(reason) && typeof data === 'object' && data !== null && 'notification' in data;
  if (!isLetter) return { ...FOREIGN, notification: data };
  return {
    notification: data.notification,
    reason,
    message: typeof message === 'string' ? message : reason,
    attempts: attemptsOf(data),
    deadAt: isInstant(deadAt) ? deadAt : 0,
    generation: generationOf(data),
    ...(Array.isArray(delivered) && { delivered: delivered.filter((label) => typeof label === 'string') }),
  };
}

/** A device that a dead letter is about. */
export interface OpenDevice {
  readonly platform: Platform;
  /** Absent: the app of the workers' environment. */
  readonly app?: string;
}

/**
 * The devices of its notification that were not alerted. The notification may be any value, so a device without a known platform
 * is left out, and there may be none.
 */
export function openDevicesOf({ notification, delivered = [] }: DeadLetter): OpenDevice[] {
  const devices = field(notification, 'devices');
  if (!Array.isArray(devices)) return [];
  return devices.flatMap((device: unknown, index): OpenDevice[] => {
    const [platform, app] = [PLATFORMS.find((known) => known === field(device, 'platform')), field(device, 'app')];
    if (platform === undefined || delivered.includes(`${platform}#${index}`)) return [];
    if (app === undefined) return [{ platform }];
    return typeof app === 'string' && app.length <= MAX_APP ? [{ platform, app }] : [];
  });
}

/** A longer text is no name of an app, and may be a token in the wrong place. */
const MAX_APP = 64;

/** The id in a notification's data, also where it is a number by mistake; undefined if there is none to show. */
export function statedIdOf(notification: unknown): string | undefined {
  const id = field(notification, 'id');
  return typeof id === 'string' || typeof id === 'number' ? String(id) : undefined;
}

const FOREIGN = {
  reason: 'invalid',
  message: 'this job in the dead-letter queue was not written by a worker',
  attempts: [],
  deadAt: 0,
  generation: 0,
} as const;

type Verdict = Pick<DeadLetter, 'reason' | 'message'>;

function verdictOf(job: FailedJob): Verdict {
  const dead = field(job.progress, 'dead');
  const [reason, message] = [field(dead, 'reason'), field(dead, 'message')];
  if (isReason(reason) && typeof message === 'string') return { reason, message };
  return { reason: reasonOf(job), message: redact(job.failedReason, job.data) };
}

function reasonOf({ data, progress, failedReason }: FailedJob): DeadLetterReason {
  if (hasStalled(failedReason)) return wasBeingSent(progress) ? 'ambiguous' : 'stalled';
  return parseNotification(data).ok ? 'attempts-exhausted' : 'invalid';
}

/** Under AT_MOST_ONCE: whether the last worker died while it sent to a device, so that the device may have been alerted. */
function wasBeingSent(progress: unknown): boolean {
  const [trying, devices] = [field(progress, 'trying'), field(progress, 'devices')];
  return Array.isArray(trying) && trying.some((label) => field(devices, String(label)) === undefined);
}

function attemptsOf(progress: unknown): FailedAttempt[] {
  const attempts = field(progress, 'attempts');
  return Array.isArray(attempts) ? attempts.filter(isAttempt) : [];
}

/** The labels of the devices that were alerted. */
function deliveredOf(progress: unknown): string[] {
  const devices = field(progress, 'devices');
  if (typeof devices !== 'object' || devices === null) return [];
  return Object.entries(devices).flatMap(([label, state]) => (state === 'delivered' ? [label] : []));
}

function isAttempt(value: unknown): value is FailedAttempt {
  const device = field(value, 'device');
  const isDevice = device === undefined || typeof device === 'string';
  return isInstant(field(value, 'at')) && typeof field(value, 'error') === 'string' && isDevice;
}

/** Within the range of `Date`. */
function isInstant(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e15;
}

function isReason(value: unknown): value is DeadLetterReason {
  return (DEAD_LETTER_REASONS as readonly unknown[]).includes(value);
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/** The fields of a job's hash that dead letters need. */
export interface JobHash {
  /** The beginning of the text if it is not JSON, is too long, or is nested too deeply to be written as JSON again. */
  readonly data: unknown;
  readonly progress: unknown;
  readonly opts: unknown;
  readonly failedReason: string;
  readonly finishedOn?: number;
  /** When it was added: epoch milliseconds. */
  readonly timestamp: number;
}

const FIELDS = ['progress', 'opts', 'failedReason', 'finishedOn', 'timestamp'];
const READ = defineQueueScript<[length: number, ...(string | null)[]]>(new URL('job-hash.lua', import.meta.url), 1);
/** Of data that is longer than any notification's, so many characters are read. */
const BEGINNING = 4_000;

/**
 * Reads a job; undefined if it does not exist. Not by BullMQ's `getJob`, which throws if a field is not JSON: one such job would
 * stop the whole page that is read with it.
 */
export async function readJob(queue: Queue, jobId: string): Promise<JobHash | undefined> {
  const [length, ...values] = await READ(queue, [queue.toKey(jobId), MAX_JOB_TEXT, BEGINNING, ...FIELDS]);
  if (values.every((value) => value === null)) return undefined;
  const [data, progress, opts, failedReason, finishedOn, timestamp] = values;
  return {
    data: length > MAX_JOB_TEXT ? shortened(data ?? '', length) : parsed(data),
    progress: parsed(progress),
    opts: parsed(opts),
    failedReason: failedReason ?? '',
    ...(finishedOn && { finishedOn: Number(finishedOn) }),
    timestamp: Number(timestamp ?? 0),
  };
}

/** A shorter text cannot be nested too deeply to be written again. */
const SHALLOW_LENGTH = 2_000;
/** Some extra depth: the value becomes a part of a dead letter, and is written with a deeper call stack than here. */
const MARGIN = Array.from({ length: 500 });

const FORGET = defineQueueScript<number>(new URL('forget.lua', import.meta.url), 2);

/**
 * Removes the id of a job that was deleted by hand. Otherwise a whole page of such ids would be read again and again, and nothing
 * behind it.
 */
export async function forgetJob(queue: Queue, state: 'failed' | 'wait', jobId: string): Promise<void> {
  await FORGET(queue, [queue.toKey(state), queue.toKey(jobId), jobId]);
}

function parsed(text: string | null | undefined): unknown {
  if (text === null || text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text); // reads any depth
    if (text.length > SHALLOW_LENGTH) JSON.stringify(MARGIN.reduce((inner) => [inner], value)); // throws if it is too deep
    return value;
  } catch {
    return shortened(text);
  }
}

/** A dead letter in its queue. */
export interface StoredDeadLetter {
  /** The id of its job in `dead-letters`. */
  readonly id: string;
  /** When it came into that queue: epoch milliseconds on Redis's clock. */
  readonly buriedAt: number;
  readonly letter: DeadLetter;
}

/** How many are read at once. */
const PAGE = 100;
/** How many ids a walk remembers to find its position again. */
const REMEMBERED = 2 * PAGE;

const NEXT_IDS = defineQueueScript<[left: number, found: number, ...ids: string[]]>(
  new URL('page.lua', import.meta.url),
  1,
);

/** One dead letter, by the id of its job. */
export async function findDeadLetter(deadQueue: Queue, id: string): Promise<StoredDeadLetter | undefined> {
  const job = await readJob(deadQueue, id);
  return job && { id, buriedAt: job.timestamp, letter: readDeadLetter(job.data) };
}

/** At most `limit` after the first `offset`, oldest first; fewer if jobs were deleted by hand. */
export async function pageOfDeadLetters(deadQueue: Queue, offset: number, limit: number): Promise<StoredDeadLetter[]> {
  const client = await deadQueue.getBackend().client;
  const ids = await client.lrange(deadQueue.toKey('wait'), -(offset + limit), -(offset + 1));
  return readAll(deadQueue, ids.reverse());
}

/**
 * All of them, oldest first, page by page; a page may be empty although others follow. Dead letters may be taken away during the
 * walk, by others or by the caller. One that exists all the time is seen exactly once.
 */
export async function* walkDeadLetters(deadQueue: Queue): AsyncGenerator<StoredDeadLetter[], void, undefined> {
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

async function readAll(deadQueue: Queue, ids: readonly string[]): Promise<StoredDeadLetter[]> {
  const letters = await Promise.all(
    ids.map(async (id) => {
      const letter = await findDeadLetter(deadQueue, id);
      if (letter === undefined) await forgetJob(deadQueue, 'wait', id);
      return letter;
    }),
  );
  return letters.filter((letter) => letter !== undefined);
}
