import type { Queue } from 'bullmq';
import { MAX_JOB_TEXT, shortened } from '../queue/readable.ts';
import { defineQueueScript } from '../redis/scripts.ts';

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
