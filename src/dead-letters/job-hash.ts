import type { Queue } from 'bullmq';
import { defineQueueScript } from '../redis/scripts.ts';

/** What a job's hash holds, as far as dead letters need it. */
export interface JobHash {
  /** The text itself where it is no JSON, or nested so deeply that it could not be written as JSON again. */
  readonly data: unknown;
  readonly progress: unknown;
  readonly opts: unknown;
  readonly failedReason: string;
  readonly finishedOn?: number;
  /** When it was added: epoch milliseconds. */
  readonly timestamp: number;
}

const FIELDS = ['data', 'progress', 'opts', 'failedReason', 'finishedOn', 'timestamp'];

/**
 * Reads a job; undefined where it is not there. BullMQ's `getJob` throws at a hash that is no JSON: one such job, by
 * whomever it was written, would hold up all that are looked at with it.
 */
export async function readJob(queue: Queue, jobId: string): Promise<JobHash | undefined> {
  const client = await queue.getBackend().client;
  const values = await client.hmget(queue.toKey(jobId), ...FIELDS);
  if (values.every((value) => value === null)) return undefined;
  const [data, progress, opts, failedReason, finishedOn, timestamp] = values;
  return {
    data: parsed(data),
    progress: parsed(progress),
    opts: parsed(opts),
    failedReason: failedReason ?? '',
    ...(finishedOn && { finishedOn: Number(finishedOn) }),
    timestamp: Number(timestamp ?? 0),
  };
}

/** A shorter text cannot be nested so deep that it could not be written again. */
const SHALLOW_LENGTH = 2_000;
/** It becomes a part of a dead letter, and that is written from deeper within the program. */
const MARGIN = Array.from({ length: 500 });

const FORGET = defineQueueScript<number>(new URL('forget.lua', import.meta.url), 2);

/**
 * Takes out an id whose job was deleted by hand: it would be met again and again, and a page of such ids would be all
 * that is ever seen.
 */
export async function forgetJob(queue: Queue, state: 'failed' | 'wait', jobId: string): Promise<void> {
  await FORGET(queue, [queue.toKey(state), queue.toKey(jobId), jobId]);
}

function parsed(text: string | null | undefined): unknown {
  if (text === null || text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text); // reads any depth
    if (text.length > SHALLOW_LENGTH) JSON.stringify(MARGIN.reduce((inner) => [inner], value)); // throws where it is too deep
    return value;
  } catch {
    return text;
  }
}
