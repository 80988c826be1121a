import type { Job, JobJson, Queue } from 'bullmq';
import type { Fault } from '../domain/faults.ts';

/**
 * Jobs that BullMQ itself cannot read: their data is not JSON (old BullMQ for Python writes `NaN`), it was cut off, their options are
 * no object. BullMQ throws while it takes such a job, so nobody ends it: it stalls, is taken again, and holds up others each time. So
 * a worker gets a readable job with the same id instead, whose data says what is wrong.
 */

/**
 * Twice what any notification has: 20 tokens of 4,096 characters, a payload of 4,096 bytes, and the names of the fields. Reading so
 * much takes milliseconds.
 */
export const MAX_JOB_TEXT = 400_000;
/** So much of a text that is not read is kept for a person to look at. */
const KEPT_TEXT = 2_000;

/** Stands in the data of such a job. */
const UNREADABLE = '$unreadable';

/** What is wrong with a job that BullMQ cannot read; undefined for all other jobs. It tells nothing of the text. */
export function unreadableFault(data: unknown): Fault | undefined {
  const fault = (data as { readonly [UNREADABLE]?: Fault } | null | undefined)?.[UNREADABLE];
  return typeof fault?.expected === 'string' && typeof fault.found === 'string' ? { ...fault, path: '' } : undefined;
}

function unreadable(expected: string, found: string): string {
  return JSON.stringify({ [UNREADABLE]: { expected, found } satisfies Omit<Fault, 'path'> });
}

/** What BullMQ reads as JSON before it makes a job of a hash, and whether it can make a job of the value. */
const READ: Readonly<Record<string, (value: unknown) => boolean>> = {
  opts: (value) => typeof value === 'object' && value !== null,
  progress: () => true,
};

/**
 * The fields of a job's hash, `[name, value, …]`, so that BullMQ can read them: a field that it cannot read is left out, and the data
 * then says so. Data is looked at only by its length here: `readableJob` does the rest.
 */
export function readableFields(fields: readonly unknown[]): readonly unknown[] {
  let readable: unknown[] | undefined;
  let data: string | undefined;
  for (let at = 0; at < fields.length; at += 2) {
    const [name, text] = [String(fields[at]), String(fields[at + 1])];
    if (name === 'data' && text.length > MAX_JOB_TEXT) {
      data = unreadable(`job data of at most ${MAX_JOB_TEXT} characters`, `${text.length}`);
    }
    const isUsable = READ[name];
    if (isUsable === undefined || text === '') continue;
    const value = parsed(text);
    if (value !== NOT_JSON && isUsable(value)) continue;
    data ??= unreadable(`job ${name} in JSON`, `${text.length} characters that are not`);
    readable ??= [...fields];
    readable[at + 1] = '';
  }
  if (data === undefined) return fields;
  return (readable ?? fields).map((value, at) => (at % 2 === 1 && fields[at - 1] === 'data' ? data : value));
}

/** Makes a job, if need be with data that says why its own cannot be read. */
export function readableJob<T>(json: JobJson, make: (json: JobJson) => T): T {
  try {
    return make(json);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    const at = /position (\d+)/.exec(error.message)?.[1];
    const where = at === undefined ? '' : ` from character ${Number(at) + 1} on`;
    return make({
      ...json,
      data: unreadable('job data in JSON', `${json.data.length} characters that are not${where}`),
    });
  }
}

/** A job of BullMQ's `getJob`; undefined if there is none, or none that BullMQ can read: a worker ends it at its first look. */
export function findJob(queue: Queue, jobId: string): Promise<Job<unknown, unknown> | undefined> {
  return (queue.getJob(jobId) as Promise<Job<unknown, unknown> | undefined>).catch((error: unknown) => {
    if (error instanceof SyntaxError || error instanceof TypeError) return undefined;
    throw error;
  });
}

/** The beginning of a text that is not read, and how long it is. */
export function shortened(text: string, length = text.length): string {
  return length <= KEPT_TEXT ? text : `${text.slice(0, KEPT_TEXT)}… (${length} characters)`;
}

const NOT_JSON = Symbol();

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return NOT_JSON;
  }
}
