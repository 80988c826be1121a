import type { Queue } from 'bullmq';
import { countedAs } from '../domain/limits.ts';
import { newerThanKnown } from '../domain/format.ts';
import { parseObject } from '../domain/json.ts';
import { SEND_AFTER, waitsFrom } from '../domain/time.ts';
import { accountsIn, type Account } from '../notification/device.ts';
import { CREDENTIALS } from '../notification/outcome.ts';
import type { Connection } from '../redis/connection.ts';
import { dueAtOfScore, scoreOfDue, scoresOfPriority, whyOf } from './bullmq-internals.ts';
import { redisNow } from './clock-offset.ts';
import { FORMER_HIGH, isOrder, outcomesKey, PRIORITY } from './names.ts';
import { readJobs, type RawJob } from './readable.ts';

/** The queue at one instant, over all shards. Instants are epoch milliseconds on Redis's clock. */
export interface Overview {
  readonly now: number;
  /** Jobs by state, as BullMQ counts them. */
  readonly jobs: Readonly<Record<string, number>>;
  /** The queue was paused: workers take no jobs from it. */
  readonly paused: boolean;
  /** Jobs that were put back or delayed and are due now. Workers take them before new ones of their kind (high or normal). */
  readonly due: Backlog;
  /** Jobs that no worker has taken yet. */
  readonly untaken: Backlog;
  /** The causes for which jobs wait, and who waits. Not all jobs are looked at. */
  readonly waiting: Waiting;
  /** Entries in the stream of outcomes; 0 if there is none. */
  readonly outcomes: number;
}

export interface Backlog {
  readonly count: number;
  /** Since when the oldest job could have been taken. Absent if there is no job, or its time is not known. */
  readonly oldestAt?: number;
}

interface Waiting {
  /** How many delayed jobs were looked at, the next due first. */
  readonly lookedAt: number;
  /** How many delayed jobs there are. */
  readonly of: number;
  /**
   * For each cause, how many jobs that are not due yet wait for it: a rule (`gap`, `10/1m`), `sendAfter`, `retry`, `provider`
   * (a breaker, a connection), `credentials` (no worker that took the job has them), `delay` (the job was added with a delay,
   * and no worker has looked at it), or `newer` (a worker that can read the job).
   */
  readonly byRule: Readonly<Record<string, number>>;
  /** Of the jobs that wait for `credentials`: the accounts of their devices (`apns`, `fcm~teacher`), and how many have them. */
  readonly credentials: Readonly<Record<string, number>>;
  /** How many of the jobs that were looked at were written by a newer version. */
  readonly newer: number;
  /** Since when the oldest alert waits, among the jobs that were looked at. Absent if no alert waits. */
  readonly oldestAt?: number;
  /** The recipients whose alerts wait longest, among the jobs that were looked at; the longest wait first. */
  readonly recipients: readonly WaitingRecipient[];
}

interface WaitingRecipient {
  readonly recipientId: string;
  /** How many of the recipient's alerts wait, among the jobs that were looked at. */
  readonly waiting: number;
  /** Since when the oldest of these alerts waits: when it was enqueued, or its `sendAfter` if that is later. */
  readonly since: number;
  /** When the last of these alerts is due; absent if none is delayed. */
  readonly until?: number;
}

/** Numbers and the oldest ages, for metrics. Only a few jobs are read, however many the queue contains. */
export interface QueueAges {
  /** Jobs by state, as BullMQ counts them. */
  readonly jobs: Readonly<Record<string, number>>;
  /** Jobs that any worker could take now: due jobs, and jobs that no worker has looked at. */
  readonly dueJobs: number;
  /** How long the oldest job has been due, and how long the oldest alert waits, in milliseconds; 0 if there is none. */
  readonly oldestDueMs: number;
  readonly oldestWaitingMs: number;
}

/** How many delayed jobs are looked at, in all shards together. */
const MOST_LOOKED_AT = 5_000;
/** For metrics, at most this many jobs are looked at in each shard. */
const FEW = 100;
/** At most this many of the jobs that no worker has looked at are read: the oldest ones. */
const UNTAKEN_LOOKED_AT = 500;
/** This many jobs are read by one command, which takes Redis half a millisecond. */
const PAGE = 50;
const RECIPIENTS = 5;
/** An id that is longer than this is not valid, and may be a token or a text, so it is not shown. */
const MAX_ID = 256;

/** How many notifications wait, in all shards. */
export async function countWaiting(queues: readonly Queue[]): Promise<number> {
  const counts = await Promise.all(queues.map((queue) => queue.getJobCountByTypes('wait', 'prioritized', 'delayed')));
  return counts.reduce((sum, each) => sum + each, 0);
}

/** The overview that commands show. `queues`: one for each shard. `signal` stops it between its steps. */
export async function readOverview(
  queues: readonly Queue[],
  connection: Connection,
  signal?: AbortSignal,
): Promise<Overview> {
  const most = Math.ceil(MOST_LOOKED_AT / queues.length);
  const looks = await Promise.all(queues.map((queue) => lookAt(queue, connection, most, UNTAKEN_LOOKED_AT, signal)));
  const lengths = await Promise.all(queues.map(({ opts }) => connection.xlen(outcomesKey(opts.prefix ?? ''))));
  const paused = await Promise.all(queues.map((queue) => queue.isPaused()));
  const now = Math.max(...looks.map((look) => look.now));
  return {
    now,
    jobs: sumOf(looks.map(({ jobs }) => jobs)),
    paused: paused.includes(true),
    due: merged(looks.map(({ due }) => due)),
    untaken: merged(looks.map(({ untaken }) => untaken)),
    waiting: waitingIn(looks, now),
    outcomes: lengths.reduce((sum, length) => sum + length, 0),
  };
}

/** The ages over all shards. Looks only at the 100 delayed jobs of each shard that are due next. */
export async function readAges(queues: readonly Queue[], connection: Connection): Promise<QueueAges> {
  const looks = await Promise.all(queues.map((queue) => lookAt(queue, connection, FEW, FEW)));
  const now = Math.max(...looks.map((look) => look.now));
  const ageMs = (at = now): number => Math.max(0, now - at);
  const due = merged(looks.map((look) => look.due));
  return {
    jobs: sumOf(looks.map(({ jobs }) => jobs)),
    dueJobs: due.count + merged(looks.map(({ untaken }) => untaken)).count,
    oldestDueMs: ageMs(due.oldestAt),
    oldestWaitingMs: ageMs(waitingIn(looks, now).oldestAt),
  };
}

/**
 * For how long the oldest job of this queue could have been taken, in milliseconds; 0 if there is none. Looks at few jobs only.
 */
export async function readOldestTakeable(queue: Queue, connection: Connection): Promise<number> {
  const { now, due, untaken } = await lookAt(queue, connection, 1, 1);
  return Math.max(0, now - (least([due.oldestAt, untaken.oldestAt]) ?? now));
}

/** A job that waits, as far as the overview needs it. */
interface Seen {
  readonly isAlert: boolean;
  readonly recipientId: string | undefined;
  /** Since when the job waits: when it was enqueued, or its `sendAfter` if that is later. */
  readonly since: number;
  /**
   * The earliest instant at which a worker could take the job: its due time, if a worker put it back; else when it was
   * enqueued, plus its delay.
   */
  readonly readyAt: number;
  readonly waitsFor: string;
  /** If the job waits for credentials: the accounts of its devices. */
  readonly accounts: readonly Account[];
  /** A newer version wrote the job. */
  readonly isNewer: boolean;
  /** The due time, if the job is delayed. */
  readonly dueAt?: number;
}

interface Look {
  readonly now: number;
  readonly jobs: Readonly<Record<string, number>>;
  readonly due: Backlog;
  readonly untaken: Backlog;
  /** Delayed jobs, the next due first. */
  readonly delayed: readonly Seen[];
  /** Whether all delayed jobs were read. */
  readonly isWhole: boolean;
  /** Other jobs that wait: some that are due and some that are new. */
  readonly others: readonly Seen[];
}

const DUE = [PRIORITY.dueHigh, PRIORITY.due].map((priority) => [priority, priority] as const);
/** The priorities of new jobs: a range for each priority in use. The jobs in a range are in the order of enqueuing. */
const NEW = [
  [PRIORITY.high, PRIORITY.high],
  [PRIORITY.due + 1, FORMER_HIGH],
  [FORMER_HIGH + 1, PRIORITY.normal],
  [PRIORITY.normal + 1, Infinity],
] as const;

/** Looks at one queue. The numbers may be wrong by a few, since jobs come and go meanwhile. */
async function lookAt(
  queue: Queue,
  connection: Connection,
  mostDelayed: number,
  mostNew: number,
  signal?: AbortSignal,
): Promise<Look> {
  const [delayedKey, prioritizedKey] = [queue.toKey('delayed'), queue.toKey('prioritized')];
  const first = (most: number, range: readonly [from: number, to: number]): Promise<string[]> => {
    const [from, to] = scoresOfPriority(...range);
    return connection.zrangebyscore(prioritizedKey, from, Number.isFinite(to) ? to : '+inf', 'LIMIT', 0, most);
  };
  const firstOf = async (most: number, ranges: readonly (readonly [from: number, to: number])[]): Promise<string[]> =>
    (await Promise.all(ranges.map((range) => first(most, range)))).flat();
  const now = await redisNow(queue);
  const [jobs, overdue, inDue, dueIds, oldestOfNew, newIds, plain] = await Promise.all([
    queue.getJobCounts(),
    connection.zcount(delayedKey, '-inf', scoreOfDue(now + 1) - 1),
    queue.getCountsPerPriority(DUE.map(([priority]) => priority)),
    firstOf(FEW, DUE),
    firstOf(1, NEW),
    firstOf(mostNew, [
      [PRIORITY.high, PRIORITY.high],
      [PRIORITY.due + 1, Infinity],
    ]),
    connection.lrange(queue.toKey('wait'), -FEW, -1),
  ]);
  const promoted = Object.values(inDue).reduce((sum, count) => sum + count, 0);
  const { delayed, isWhole } = await readDelayed(queue, connection, mostDelayed, signal);
  const due = await read(queue, dueIds);
  const fresh = await read(queue, [...new Set([...oldestOfNew, ...plain, ...newIds])]);
  // For delayed jobs the score counts: after a move to another slot, the job's progress still has the old due time. Due jobs
  // that a newer version wrote are left out: their progress may be older than the last time when they were put back.
  const oldestPromoted = least(due.filter(({ isNewer }) => !isNewer).map(({ readyAt }) => readyAt));
  const oldestDue = least([overdue > 0 ? delayed[0]?.dueAt : undefined, oldestPromoted]);
  const oldestUntaken = least(fresh.map(({ readyAt }) => readyAt));
  const news = (jobs['waiting'] ?? 0) + (jobs['prioritized'] ?? 0) - promoted;
  return {
    now,
    jobs,
    due: backlog(overdue + promoted, oldestDue && Math.min(now, oldestDue)),
    untaken: backlog(Math.max(0, news), oldestUntaken && Math.min(now, oldestUntaken)),
    delayed,
    isWhole,
    others: [...due, ...fresh],
  };
}

/** The ids are read at once: between two pages of ids some jobs become due, and as many others would be skipped. */
async function readDelayed(
  queue: Queue,
  connection: Connection,
  most: number,
  signal?: AbortSignal,
): Promise<Pick<Look, 'delayed' | 'isWhole'>> {
  const page = await connection.zrange(queue.toKey('delayed'), '0', String(most - 1), 'WITHSCORES');
  const ids = page.filter((_, index) => index % 2 === 0);
  const dueAt = new Map(ids.map((id, index) => [id, dueAtOfScore(Number(page[2 * index + 1]))]));
  return { delayed: await read(queue, ids, dueAt, signal), isWhole: ids.length < most };
}

/** The jobs with these ids, without jobs that are gone, and without jobs that are not notifications. */
async function read(
  queue: Queue,
  ids: readonly string[],
  dueAt?: ReadonlyMap<string, number>,
  signal?: AbortSignal,
): Promise<Seen[]> {
  const found: Seen[] = [];
  for (let from = 0; from < ids.length; from += PAGE) {
    signal?.throwIfAborted();
    const page = ids.slice(from, from + PAGE);
    const jobs = await readJobs(queue, page, 0);
    found.push(...jobs.flatMap((job, index) => seen(job, dueAt?.get(page[index] ?? '')) ?? []));
  }
  return found;
}

function seen([, data, timestamp, name, opts, progress, why]: RawJob, dueAt: number | undefined): Seen | undefined {
  if (timestamp === null || isOrder(name ?? '')) return undefined;
  const [fields, noted, options] = [parseObject(data ?? ''), parseObject(progress ?? ''), parseObject(opts ?? '')];
  const recipientId = fields['recipientId'];
  const enqueuedAt = Number(timestamp);
  const isNewer = (newerThanKnown('job data', fields) ?? newerThanKnown('job progress', noted)) !== undefined;
  const delay = typeof options['delay'] === 'number' ? options['delay'] : 0;
  const waitsFor = isNewer ? 'newer' : reasonOf((dueAt !== undefined && whyOf(why, dueAt)) || noted, fields);
  return {
    isAlert: countedAs(fields) === 'alert',
    recipientId: typeof recipientId === 'string' && recipientId.length <= MAX_ID ? recipientId : undefined,
    since: waitsFrom(enqueuedAt, fields),
    readyAt: typeof noted['dueAt'] === 'number' ? noted['dueAt'] : enqueuedAt + delay,
    isNewer,
    waitsFor,
    accounts: waitsFor === CREDENTIALS ? accountsIn(fields) : [],
    ...(dueAt !== undefined && { dueAt }),
  };
}

/** What a delayed job waits for, read from its progress. */
function reasonOf({ rule, heldSince, tries, unreached }: JsonFields, data: JsonFields): string {
  if (typeof rule === 'string') return rule.slice(0, MAX_ID);
  if (typeof heldSince === 'number') return 'provider';
  if (typeof tries === 'number' && tries > 0) return 'retry';
  if (data[SEND_AFTER] !== undefined) return SEND_AFTER;
  return unreached === undefined ? 'delay' : 'retry';
}

type JsonFields = Readonly<Record<string, unknown>>;

function waitingIn(looks: readonly Look[], now: number): Waiting {
  const delayed = looks.flatMap((look) => look.delayed);
  const byRule: Record<string, number> = {};
  const credentials: Record<string, number> = {};
  for (const { waitsFor, accounts, dueAt = now } of delayed) {
    if (dueAt <= now) continue;
    byRule[waitsFor] = (byRule[waitsFor] ?? 0) + 1;
    for (const account of accounts) credentials[account] = (credentials[account] ?? 0) + 1;
  }
  const alerts = [...delayed, ...looks.flatMap(({ others }) => others)].filter(
    ({ isAlert, since }) => isAlert && since <= now,
  );
  const oldestAt = least(alerts.map(({ since }) => since));
  return {
    lookedAt: delayed.length,
    // Jobs may have come and gone since they were counted, so the count is of use only where not all were read.
    of: looks.reduce(
      (sum, { jobs, delayed: read, isWhole }) => sum + (isWhole ? read.length : (jobs['delayed'] ?? 0)),
      0,
    ),
    byRule,
    credentials,
    newer: looks.flatMap(({ delayed: some, others }) => [...some, ...others]).filter((each) => each.isNewer).length,
    ...(oldestAt !== undefined && { oldestAt }),
    recipients: longest(alerts),
  };
}

function longest(alerts: readonly Seen[]): WaitingRecipient[] {
  const found = new Map<string, WaitingRecipient>();
  for (const { recipientId, since, dueAt } of alerts) {
    if (recipientId === undefined) continue;
    const known = found.get(recipientId);
    const until = Math.max(known?.until ?? 0, dueAt ?? 0);
    found.set(recipientId, {
      recipientId,
      waiting: (known?.waiting ?? 0) + 1,
      since: Math.min(known?.since ?? Infinity, since),
      ...(until > 0 && { until }),
    });
  }
  return [...found.values()].toSorted((a, b) => a.since - b.since).slice(0, RECIPIENTS);
}

function merged(backlogs: readonly Backlog[]): Backlog {
  return backlog(
    backlogs.reduce((sum, { count }) => sum + count, 0),
    least(backlogs.map(({ oldestAt }) => oldestAt)),
  );
}

function backlog(count: number, oldestAt: number | undefined): Backlog {
  return { count, ...(oldestAt !== undefined && { oldestAt }) };
}

function sumOf(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const [name, count] of all.flatMap((each) => Object.entries(each))) sum[name] = (sum[name] ?? 0) + count;
  return sum;
}

function least(numbers: readonly (number | undefined)[]): number | undefined {
  const known = numbers.filter((number) => number !== undefined);
  return known.length === 0 ? undefined : known.reduce((a, b) => Math.min(a, b));
}
