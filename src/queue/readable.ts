import type { Job, Queue } from 'bullmq';
import { counted, isOrAre, type Fault } from '../domain/faults.ts';
import { defineQueueScript } from '../redis/scripts.ts';
import { moveKeys } from './names.ts';

/**
 * BullMQ cannot read some jobs: their data is not JSON (old BullMQ for Python writes `NaN`) or was cut off, or their options
 * are not an object. BullMQ throws when it takes such a job. So the job never ends: it stalls, is taken again, and delays other
 * jobs each time. Therefore the worker gets a readable job with the same id in its place, whose data says what is wrong.
 */

/**
 * Twice the most that a notification can have: 20 tokens of 4,096 characters, a payload of 4,096 bytes, and the names of the
 * fields. Reading this much takes milliseconds.
 */
export const MAX_JOB_TEXT = 400_000;
/** This much of an unreadable text is kept for a person to look at. */
const KEPT_TEXT = 2_000;

/** The field that has the fault, in the data of a job that BullMQ cannot read. */
const UNREADABLE = '$unreadable';

/** What is wrong with a job that BullMQ cannot read; undefined for all other jobs. The fault contains nothing of the text. */
export function unreadableFault(data: unknown): Fault | undefined {
  const fault = (data as { readonly [UNREADABLE]?: Fault } | null | undefined)?.[UNREADABLE];
  return typeof fault?.expected === 'string' && typeof fault.found === 'string' ? { ...fault, path: '' } : undefined;
}

function unreadable(expected: string, found: string): string {
  return JSON.stringify({ [UNREADABLE]: { expected, found } satisfies Omit<Fault, 'path'> });
}

/** The fields that BullMQ reads as JSON when it makes a job of a hash, each with a check whether BullMQ can use the value. */
const READ: Readonly<Record<string, (value: unknown) => boolean>> = {
  data: () => true,
  opts: (value) => typeof value === 'object' && value !== null,
  progress: () => true,
};

/**
 * The fields of a job's hash, `[name, value, …]`, changed so that BullMQ can read them: an unreadable field is left empty, and
 * the data then says what is wrong.
 */
export function readableFields(fields: readonly unknown[]): readonly unknown[] {
  let fault: string | undefined;
  const readable = fields.map((text, at) => {
    const name = String(fields[at - 1]);
    const isUsable = at % 2 === 1 ? READ[name] : undefined;
    if (isUsable === undefined || typeof text !== 'string' || text === '') return text;
    const problem = problemOf(name, text, isUsable);
    fault = (name === 'data' ? problem : undefined) ?? fault ?? problem;
    return problem === undefined ? text : '';
  });
  if (fault === undefined) return fields;
  return readable.map((value, at) => (at % 2 === 1 && fields[at - 1] === 'data' ? fault : value));
}

/** Describes, for use as the job's data, what is wrong with this text; undefined if BullMQ can read it. */
function problemOf(name: string, text: string, isUsable: (value: unknown) => boolean): string | undefined {
  if (name === 'data' && text.length > MAX_JOB_TEXT) {
    return unreadable(`job data of at most ${MAX_JOB_TEXT} characters`, `${text.length}`);
  }
  let where = '';
  try {
    if (isUsable(JSON.parse(text))) return undefined;
  } catch (error) {
    const at = /position (\d+)/.exec((error as Error).message)?.[1];
    if (name === 'data' && at !== undefined) where = ` from character ${Number(at) + 1} on`;
  }
  const { length } = text;
  return unreadable(`job ${name} in JSON`, `${counted(length, 'character')} that ${isOrAre(length)} not${where}`);
}

/** The job with this id. Undefined if there is none, or if BullMQ cannot read it (a worker ends such a job). */
export function findJob(queue: Queue, jobId: string): Promise<Job<unknown, unknown> | undefined> {
  return (queue.getJob(jobId) as Promise<Job<unknown, unknown> | undefined>).catch((error: unknown) => {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  });
}

/** Whether a `reshard` has taken the job from this queue, and not put it into another one yet. */
export async function isMoving(queue: Queue, jobId: string): Promise<boolean> {
  const client = await queue.getBackend().client;
  const { moving } = moveKeys(queue.opts.prefix ?? '');
  return (await client.hget(moving, `${queue.name}:${jobId}`)) !== null;
}

type Text = string | null;
/** A job's fields as they are in Redis; null for a field that does not exist. `length`: how many bytes the data has. */
export type RawJob = readonly [
  ...[length: number, data: Text, timestamp: Text, name: Text, opts: Text, progress: Text],
  ...[why: Text, failedReason: Text, finishedOn: Text],
];
const READ_JOBS = defineQueueScript<RawJob[]>(new URL('read-jobs.lua', import.meta.url), 1);

/**
 * Reads many jobs by one command, also jobs that BullMQ cannot read.
 *
 * @param beginning how many bytes to read of data that is longer than MAX_JOB_TEXT
 */
export function readJobs(queue: Queue, jobIds: readonly string[], beginning: number): Promise<RawJob[]> {
  return READ_JOBS(queue, [queue.toKey('delayed'), queue.toKey(''), MAX_JOB_TEXT, beginning, ...jobIds]);
}

const MENTIONING = defineQueueScript<string[]>(new URL('mentioning.lua', import.meta.url), 1);
/** This many jobs are looked at by one command, which takes Redis half a millisecond. */
const LOOKED_AT = 250;
/** Letters that every JSON encoder writes as they are: some escape a slash, a plus or what is not ASCII. */
const PLAIN = /[A-Za-z0-9_.-]+/g;

/**
 * The ids of the jobs whose data may be about this recipient, without reading the data: others are certainly not.
 *
 * @param signal stops between two commands
 */
export async function jobsMentioning(
  queue: Queue,
  jobIds: readonly string[],
  recipientId: string,
  signal?: AbortSignal,
): Promise<string[]> {
  const plain = (recipientId.match(PLAIN) ?? []).reduce(
    (longest, run) => (run.length > longest.length ? run : longest),
    '',
  );
  const text = plain === recipientId ? JSON.stringify(recipientId) : plain;
  const found: string[] = [];
  for (let from = 0; from < jobIds.length; from += LOOKED_AT) {
    signal?.throwIfAborted();
    const page = jobIds.slice(from, from + LOOKED_AT);
    found.push(...(await MENTIONING(queue, [queue.toKey('delayed'), queue.toKey(''), text, ...page])));
  }
  return found;
}

/** The beginning of an unreadable text, and how long the text is. */
export function shortened(text: string, length = text.length): string {
  return length <= KEPT_TEXT ? text : `${text.slice(0, KEPT_TEXT)}… (${length} characters)`;
}
