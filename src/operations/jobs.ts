import type { Job, JobType, Queue } from 'bullmq';
import { findJob, jobsMentioning } from '../queue/readable.ts';
import { parseNotification, type Notification } from '../notification/notification.ts';
import { defined, isObject, valueAt } from '../domain/json.ts';
import { SEND_AFTER } from '../domain/time.ts';
import { readProgress } from '../delivery/progress.ts';
import { dueAtOfScore } from '../queue/bullmq-internals.ts';
import type { Connection } from '../redis/connection.ts';
import { notificationIdOf, replayOf } from '../queue/names.ts';

/** Facts about a waiting notification, read from the queue, without texts and tokens. */
export interface WaitingJob {
  readonly id: string;
  /** Which replay of a dead letter it is; absent if it is no replay. */
  readonly replay?: number;
  readonly category?: string;
  readonly priority: Notification['priority'];
  /** Epoch milliseconds, on the producer's clock. */
  readonly enqueuedAt: number;
  /** Delivery attempts so far. */
  readonly attempts: number;
  /** How often it was requeued. */
  readonly requeues: number;
  /** What it waits for: a limiter's rule, `sendAfter`, `retry`, or `provider` (a breaker, a connection). */
  readonly waitsFor: string;
}

/** A notification that a worker has now: it is being sent, or is about to be. */
export interface SendingJob extends Omit<WaitingJob, 'waitsFor'> {
  /** Its slot, which the limiter already counts as sent: epoch milliseconds. Absent if it has none yet. */
  readonly at?: number;
  /** When the worker took it: epoch milliseconds. */
  readonly takenAt?: number;
}

/** A delayed notification without a slot: it waits for a retry, or for its provider. */
export interface DelayedJob extends WaitingJob {
  /** When it comes back: epoch milliseconds on Redis's clock. */
  readonly dueAt: number;
}

/** Jobs of one recipient, and how many of all jobs were looked at. */
export interface FoundJobs<T> {
  readonly found: readonly T[];
  /** How many jobs were looked at; of delayed jobs, those that are due first. */
  readonly lookedAt: number;
  /** How many jobs there are. */
  readonly of: number;
}
export type DelayedJobs = FoundJobs<DelayedJob>;

const PAGE = 500;
/** How many jobs are looked at: BullMQ has no index by recipient, so the data of each job is searched. */
const MOST_LOOKED_AT = 20_000;
/** The states of jobs that a worker may take now and that none has taken. */
const NOT_TAKEN: readonly JobType[] = ['wait', 'prioritized'];

/** The jobs that are still in the recipient's queues, by their ids. */
export async function findJobs(
  queues: readonly Queue<unknown>[],
  jobIds: readonly string[],
): Promise<Map<string, WaitingJob>> {
  const found = new Map<string, WaitingJob>();
  for (let from = 0; from < jobIds.length; from += PAGE) {
    const page = jobIds.slice(from, from + PAGE);
    const jobs = await Promise.all(page.map((id) => findFirst(queues, id)));
    for (const [index, job] of jobs.entries()) {
      const [id, facts] = [page[index], job && factsOf(job)];
      if (id !== undefined && facts !== undefined) found.set(id, facts);
    }
  }
  return found;
}

/** The job in the first queue that has it. A hash without data only keeps an id, and is no job. */
async function findFirst(queues: readonly Queue<unknown>[], jobId: string): Promise<Job<unknown> | undefined> {
  const jobs = await Promise.all(queues.map((queue) => findJob(queue, jobId)));
  return jobs.find((job) => valueAt(job?.data, 'recipientId') !== undefined);
}

/** The jobs that were found in several queues, together. */
function together<T>(all: readonly FoundJobs<T>[]): FoundJobs<T> {
  return {
    found: all.flatMap(({ found }) => found),
    lookedAt: all.reduce((sum, { lookedAt }) => sum + lookedAt, 0),
    of: all.reduce((sum, { of }) => sum + of, 0),
  };
}

/** The recipient's delayed jobs, without those in `known`, the next due first. */
export async function findDelayed(
  queues: readonly Queue<unknown>[],
  connection: Connection,
  given: Asked,
): Promise<DelayedJobs> {
  const { found, ...counts } = together(await Promise.all(queues.map((queue) => delayedIn(queue, connection, given))));
  return { found: found.toSorted((a, b) => a.dueAt - b.dueAt), ...counts };
}

async function delayedIn(queue: Queue<unknown>, connection: Connection, given: Asked): Promise<DelayedJobs> {
  const { mostLookedAt = MOST_LOOKED_AT } = given;
  const key = queue.toKey('delayed');
  const of = await queue.getDelayedCount();
  const most = Math.min(of, mostLookedAt);
  const found: DelayedJob[] = [];
  for (let from = 0; from < most; from += PAGE) {
    const page = await connection.zrange(key, String(from), String(Math.min(from + PAGE, most) - 1), 'WITHSCORES');
    const dueAt = new Map(
      page.flatMap((id, index) => (index % 2 === 0 ? [[id, Number(page[index + 1])] as const] : [])),
    );
    for (const job of await ofRecipient(queue, [...dueAt.keys()], given)) {
      const facts = factsOf(job);
      if (facts !== undefined) found.push({ ...facts, dueAt: dueAtOfScore(dueAt.get(job.id ?? '') ?? 0) });
    }
  }
  return { found, lookedAt: most, of };
}

/** The recipient's jobs that a worker may take now, without those in `known`. */
export async function findNotTaken(queues: readonly Queue<unknown>[], given: Asked): Promise<FoundJobs<WaitingJob>> {
  return together(await Promise.all(queues.map((queue) => notTakenIn(queue, given))));
}

async function notTakenIn(queue: Queue<unknown>, given: Asked): Promise<FoundJobs<WaitingJob>> {
  const { mostLookedAt = MOST_LOOKED_AT } = given;
  const of = await queue.getJobCountByTypes(...NOT_TAKEN);
  const found: WaitingJob[] = [];
  let lookedAt = 0;
  for (const state of NOT_TAKEN) {
    for (let from = 0; lookedAt < mostLookedAt; from += PAGE) {
      const ids = await queue.getRanges([state], from, from + PAGE - 1, true);
      const jobs = await ofRecipient(queue, ids, given);
      found.push(...jobs.flatMap((job) => factsOf(job) ?? []));
      lookedAt += ids.length;
      if (ids.length < PAGE) break;
    }
  }
  return { found, lookedAt, of: Math.max(of, lookedAt) };
}

/**
 * The recipient's jobs that workers have now. Their slots count as sent already, though a provider may still have to answer.
 *
 * @param slotOf the slot that the limiter has given to an ask: epoch milliseconds
 */
export async function findSending(
  queues: readonly Queue<unknown>[],
  recipientId: string,
  slotOf: (data: unknown, askId: string) => Promise<number | undefined>,
  signal?: AbortSignal,
): Promise<SendingJob[]> {
  const jobs = await Promise.all(
    queues.map(async (queue) => {
      const ids = await queue.getRanges(['active'], 0, MOST_LOOKED_AT - 1, true);
      return ofRecipient(queue, ids, { recipientId, known: new Set(), signal });
    }),
  );
  const found = jobs.flat().map(async (job): Promise<SendingJob | undefined> => {
    const facts = readFacts(job)?.facts;
    if (facts === undefined) return undefined;
    const { asks } = readProgress(job.progress);
    // The number of the pass's ask is saved later. It may already be the next number, so both numbers are looked up.
    const slots = await Promise.all([asks + 1, asks].map((number) => slotOf(job.data, `${job.id ?? ''}/${number}`)));
    const at = slots.find((slot) => slot !== undefined);
    return { ...facts, ...defined({ at, takenAt: job.processedOn }) };
  });
  return (await Promise.all(found)).filter((job) => job !== undefined);
}

interface Asked {
  readonly recipientId: string;
  /** The ids of jobs to leave out. */
  readonly known: ReadonlySet<string>;
  /** How many jobs are looked at. Default: 20,000. */
  readonly mostLookedAt?: number | undefined;
  /** Stops the look between its steps. */
  readonly signal?: AbortSignal | undefined;
}

async function ofRecipient(
  queue: Queue<unknown>,
  ids: readonly string[],
  { recipientId, known, signal }: Asked,
): Promise<Job<unknown>[]> {
  const unknown = ids.filter((id) => !known.has(id));
  const mentioning = await jobsMentioning(queue, unknown, recipientId, signal);
  const jobs = await Promise.all(mentioning.map((id) => findJob(queue, id)));
  return jobs.filter((job) => job !== undefined && valueAt(job.data, 'recipientId') === recipientId) as Job<unknown>[];
}

function factsOf(job: Job<unknown>): WaitingJob | undefined {
  const read = readFacts(job);
  if (read === undefined) return undefined;
  const { facts, sendAfter } = read;
  const { rule, heldSince } = readProgress(job.progress);
  const isNew = facts.attempts === 0 && heldSince === undefined && sendAfter !== undefined;
  return { ...facts, waitsFor: rule ?? (isNew ? SEND_AFTER : heldSince === undefined ? 'retry' : 'provider') };
}

/** The facts of a job; undefined if it is not a notification. */
function readFacts({ id = '', data, timestamp, progress }: Job<unknown>) {
  const withId = isObject(data) ? { id: notificationIdOf(id), ...data } : data;
  const parsed = parseNotification(withId);
  if (!parsed.ok) return undefined;
  const { category, priority, sendAfter } = parsed.notification;
  const { tries: attempts, requeues } = readProgress(progress);
  const names = { id: parsed.notification.id, replay: replayOf(id), category };
  return { facts: defined({ ...names, priority, enqueuedAt: timestamp, attempts, requeues }), sendAfter };
}
