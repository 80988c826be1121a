import { isDeepStrictEqual } from 'node:util';
import { Job, type Queue } from 'bullmq';
import { formatPath, type Fault } from '../domain/faults.ts';
import { isObject, parseJson, parseObject } from '../domain/json.ts';
import { payloadFaults } from '../notification/rules.ts';
import { type NotificationInput, parseNotification } from '../notification/notification.ts';
import type { Origin } from '../notification/story.ts';
import { tooFarAhead } from '../domain/time.ts';
import { indexCommand } from '../queue/cancellation-index.ts';
import { PRIORITY, cancellationIndexKey, JOB, jobIdOf, KEEP_COMPLETED } from '../queue/names.ts';
import { MAX_JOB_TEXT } from '../queue/readable.ts';

/** A notification to enqueue: a `NotificationInput` whose id may be left out. */
export interface EnqueueInput extends Omit<NotificationInput, 'id'> {
  /**
   * Idempotency key, and the job id: the same id twice is one notification. 1 to 128 of `A-Z a-z 0-9 . _ ~ -`. Default: a new
   * UUID. Example: `msg-8841`.
   */
  id?: string | undefined;
}
/** The result for one notification. */
export type Enqueued =
  | {
      /** The notification is in the queue now. */
      readonly kind: 'added';
      /** The notification's id: the given one, or the UUID that it got. */
      readonly id: string;
    }
  | {
      /**
       * The id is taken: its notification waits, or ended within the last hour, or a retract took the id. Nothing was added. The
       * id of a dead letter is free an hour after its end, also while a replay waits.
       */
      readonly kind: 'duplicate';
      /** The id that is taken. */
      readonly id: string;
    }
  | {
      /** The notification is not valid. Nothing was added. */
      readonly kind: 'invalid';
      /** Everything that is wrong with it. */
      readonly faults: readonly Fault[];
    };

/** What is to be added for a valid notification, or everything that is wrong with it. */
export type Check =
  | {
      readonly entry: Entry;
      /** Epoch milliseconds; 0 if the notification may be sent at once. */
      readonly sendAfter: number;
      readonly expiresAt?: number | undefined;
      readonly faults?: never;
    }
  | { readonly entry?: never; readonly faults: readonly Fault[] };

/**
 * Checks an input, and copies it as JSON writes it: the copy is what is stored, whatever the caller does with the object later.
 *
 * @param enqueuedBy who enqueues the notification
 */
export function check(input: EnqueueInput, enqueuedBy?: string): Check {
  const isWithoutId = (input as EnqueueInput | null | undefined)?.id === undefined; // callers may be plain JavaScript
  const given: unknown = isWithoutId && isObject(input) ? { ...input, id: crypto.randomUUID() } : input;
  const asGiven = parseNotification(given); // finds what JSON cannot hold, and what would be too much to copy
  if (!asGiven.ok) return { faults: asGiven.faults };
  const text = JSON.stringify(given);
  const data = parseJson(text);
  // JSON leaves out getters of classes, and uses `toJSON`: if the copy differs, it is checked too.
  const parsed = isDeepStrictEqual(data, given) ? asGiven : parseNotification(data);
  if (!parsed.ok) return { faults: parsed.faults };
  const rounded = roundedFaults(data);
  if (rounded.length > 0) return { faults: rounded.slice(0, MOST_ROUNDED) };
  const tooLarge = [...textFaults(text), ...payloadFaults(parsed.notification)];
  if (tooLarge.length > 0) return { faults: tooLarge };
  const { id, recipientId, priority, sendAfter = 0, expiresAt, cancellationKey, collapseId } = parsed.notification;
  const now = Date.now();
  const tooFar = tooFarAhead({ sendAfter, expiresAt }, now);
  if (tooFar.length > 0) return { faults: tooFar };
  const delayMs = Math.max(0, sendAfter - now);
  const orderKey = parsed.notification.onThrottle === 'latest' ? `${recipientId} ${collapseId}` : undefined;
  const names = { orderKey, cancellationKey, enqueuedBy };
  const entry = { id, recipientId, priority: PRIORITY[priority], delayMs, ...names, data };
  return { entry, sendAfter, expiresAt };
}

/** At most this many integers that are too large are named. */
const MOST_ROUNDED = 20;
const SAFE = `an integer from ${Number.MIN_SAFE_INTEGER} to ${Number.MAX_SAFE_INTEGER} (write larger integers as texts)`;

/**
 * The faults of integers that JavaScript rounds: their last digits may have changed already. Workers accept such integers,
 * since earlier versions enqueued them.
 */
function roundedFaults(value: unknown, path: readonly PropertyKey[] = []): Fault[] {
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    return [{ path: formatPath(path), expected: SAFE, found: 'one beyond' }];
  }
  if (Array.isArray(value)) return value.flatMap((inner, index) => roundedFaults(inner, [...path, index]));
  if (!isObject(value)) return [];
  return Object.entries(value).flatMap(([name, inner]) => roundedFaults(inner, [...path, name]));
}

/** The fault of a notification that a worker would not read. */
function textFaults({ length }: string): Fault[] {
  if (length <= MAX_JOB_TEXT) return [];
  return [{ path: '', expected: `at most ${MAX_JOB_TEXT} characters as JSON`, found: `${length}` }];
}

/** The time over which a broadcast is spread: from an instant in epoch milliseconds, for `ms`. */
export interface Spread {
  readonly from: number;
  readonly ms: number;
}

/**
 * Delays the notification to a random instant of the spread, which begins at `sendAfter` if that is later. A notification that
 * expires before the end of the spread is refused, because this delay alone might make it expire.
 */
export function delayed(checked: Check, spread: Spread = { from: 0, ms: 0 }): Check {
  const { ms } = spread;
  if (checked.entry === undefined || ms === 0) return checked;
  const { entry, sendAfter, expiresAt = Infinity } = checked;
  const from = Math.max(spread.from, sendAfter);
  if (expiresAt <= from + ms) {
    const expected = `a time after ${new Date(from + ms).toISOString()}, when the spread of ${ms} ms ends`;
    return { faults: [{ path: 'expiresAt', expected, found: new Date(expiresAt).toISOString() }] };
  }
  const delayMs = Math.max(0, Math.round(from + Math.random() * ms - Date.now()));
  return { ...checked, entry: { ...entry, delayMs } };
}

/**
 * Checks a notification as a producer does, without Redis: `invalid` with every fault, or `added`, which means that it would
 * be added if its id is free. For a form that shows what is wrong before anything is sent.
 */
export function checkInput(input: EnqueueInput): Enqueued {
  const { entry, faults } = check(input);
  return entry === undefined ? { kind: 'invalid', faults } : { kind: 'added', id: entry.id };
}

/** A checked notification that is to be added. */
export interface Entry {
  readonly id: string;
  readonly recipientId: string;
  readonly priority: number;
  /** No worker takes the job before this has passed. Milliseconds; default 0. */
  readonly delayMs?: number;
  /** Entries with the same key get timestamps in the order in which this process added them. */
  readonly orderKey?: string | undefined;
  /** The notification is to be newer than this: epoch milliseconds. */
  readonly after?: number;
  /** The key under which the notification can be canceled together with others. */
  readonly cancellationKey?: string | undefined;
  readonly enqueuedBy?: string | undefined;
  /** The job's data: a copy of the notification as the producer gave it, with its id. */
  readonly data: unknown;
}

type Trace = Pick<Origin, 'traceparent' | 'tracestate'>;
type Reply = readonly [Error | null, unknown];
const NO_REPLY: Reply = [new Error('Redis sent fewer answers than it got commands'), undefined];

/**
 * Adds jobs, and returns the entries that were added: those whose id was not taken. BullMQ's `add` does not say whether it
 * added the job, so the transaction checks the id first. If two producers add the same id, exactly one of them gets its entry
 * back.
 *
 * @param trace the span in which the jobs are added
 */
export function addJobs(queue: Queue, entries: readonly Entry[], trace?: Trace): Promise<Entry[]> {
  return add(
    queue,
    entries.map((entry) => plan(queue, entry, trace)),
  );
}

interface Planned {
  readonly entry: Entry;
  readonly job: Job;
  /** The key of the job's hash. */
  readonly key: string;
}

async function add(queue: Queue, jobs: readonly Planned[]): Promise<Entry[]> {
  const client = await queue.getBackend().client;
  const transaction = client.multi();
  for (const { job, key } of jobs) {
    transaction.runCommand('exists', [key]);
    await job.addJob(transaction);
  }
  for (const each of jobs) {
    const command = indexed(queue, each, each.key);
    if (command !== undefined) transaction.runCommand(...command);
  }
  const replies: Reply[] = (await transaction.exec()) ?? [];
  const added: Entry[] = [];
  const notAdded: Planned[] = [];
  for (const [position, each] of jobs.entries()) {
    const [existsError, existed] = replies[2 * position] ?? NO_REPLY;
    const [addError] = replies[2 * position + 1] ?? NO_REPLY;
    if (existsError) throw existsError;
    if (addError?.message.startsWith('NOSCRIPT')) {
      if (existed === 0) notAdded.push(each);
    } else if (addError) throw addError;
    else if (existed === 0) added.push(each.entry);
  }
  const [first, ...others] = notAdded;
  if (first === undefined) return added;
  // After SCRIPT FLUSH, ioredis sends a script's text again for a plain call, but not in a transaction. So the first job is
  // added by a plain call. Before that it is noted under its key, since a worker may end it before the next command.
  const command = indexed(queue, first);
  if (command !== undefined) await client.runCommand(...command);
  // No transaction checks the id here, and another producer may add it at the same time. `addedBy` says who added the job.
  const own = { addedBy: crypto.randomUUID() };
  Object.assign(first.job.opts, own);
  await first.job.addJob(client);
  const options = await client.hget(first.key, 'opts');
  const isOwn = options === null || parseObject(options)['addedBy'] === own.addedBy; // null: the job has ended, and is gone
  return [...added, ...(isOwn ? [first.entry] : []), ...(await add(queue, others))];
}

/** The command that notes a job under its cancellation key, if it has one. `ifAdded`: only if this hash is the job's own. */
function indexed(queue: Queue, { entry, job }: Planned, ifAdded?: string): ReturnType<typeof indexCommand> | undefined {
  const { recipientId, cancellationKey, delayMs = 0 } = entry;
  if (cancellationKey === undefined) return undefined;
  const index = cancellationIndexKey(queue.opts.prefix ?? '', recipientId, cancellationKey);
  const added = ifAdded === undefined ? undefined : { key: ifAdded, timestamp: job.timestamp };
  return indexCommand(index, { id: job.id ?? '', delayMs }, added);
}

/** The latest timestamp of each `orderKey`, if it is not past yet. */
const latest = new Map<string, number>();
const MOST_KEPT = 10_000;

/**
 * Of two notifications with `onThrottle: "latest"`, the one that was added later is newer, even if both are added within a
 * millisecond.
 */
function timestampOf({ orderKey, after = 0 }: Entry): number {
  const now = Math.max(Date.now(), after + 1);
  if (orderKey === undefined) return now;
  const timestamp = Math.max(now, (latest.get(orderKey) ?? 0) + 1);
  latest.set(orderKey, timestamp);
  if (latest.size > MOST_KEPT) {
    for (const [key, at] of latest) if (at < now) latest.delete(key);
  }
  return timestamp;
}

function plan(queue: Queue, entry: Entry, trace?: Trace): Planned {
  const jobId = jobIdOf(entry.id);
  const { priority, delayMs: delay = 0, enqueuedBy } = entry;
  const options = {
    jobId,
    priority,
    delay,
    timestamp: timestampOf(entry),
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: false,
    ...(enqueuedBy !== undefined && { enqueuedBy }),
    ...trace,
  };
  return { entry, job: new Job(queue, JOB, entry.data, options, jobId), key: queue.toKey(jobId) };
}
