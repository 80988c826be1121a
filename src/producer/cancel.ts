import { setTimeout as sleep } from 'node:timers/promises';
import type { Job, Queue } from 'bullmq';
import { placeOf, type CountedAs, type PlaceInLimits } from '../domain/limits.ts';
import type { Canceled, CancelTarget } from '../notification/notification.ts';
import { mayBeSeen, type Completion } from '../notification/outcome.ts';
import { firstEnqueuedAtOf } from '../notification/story.ts';
import type { Canceller } from '../limiter/redis/canceller.ts';
import type { Connection } from '../redis/connection.ts';
import { lockKeyOf } from '../queue/bullmq-internals.ts';
import type { KeyPlace } from '../queue/cancellation-index.ts';
import { queuesAt } from '../queue/shards/layout.ts';
import { redelay } from '../queue/job-lock.ts';
import { CANCEL, cancellationIndexKey, DEAD_LETTERS, jobIdOf, replayIdsOf } from '../queue/names.ts';
import { findJob } from '../queue/readable.ts';

export interface CancelParts {
  /** The queue's Redis. */
  readonly connection: Connection;
  /** All queues that may have notifications. */
  readonly queues: readonly Queue[];
  /** The prefixes of the queues that may have notifications of a recipient, its shard's first. */
  readonly homes: (recipientId: string) => readonly string[];
  /** The limiters decide: that of alerts, and those of background pushes and Live Activities. */
  readonly deciders: Readonly<Record<CountedAs, Canceller>>;
}

type FindParts = Omit<CancelParts, 'deciders'>;

/** How long to wait for a pass that is under way. */
const PASS_MS = 2_000;
const LOOK_MS = 10;
/** How many notifications are canceled at once, so that other commands get through in between. */
const AT_ONCE = 100;

/**
 * Cancels what has not been sent. The limiter decides in one step with its admissions: a canceled notification gets no slot any
 * more, and for one that was admitted it is too late. The job itself stays: it is woken, its next pass asks for a slot, and it
 * ends as `canceled`. It is safe to repeat.
 */
export async function cancelWaiting(target: CancelTarget, parts: CancelParts): Promise<Canceled> {
  const { jobs, isDead, gone } = await find(target, parts);
  for (const [key, ids] of gone) if (ids.length > 0) await parts.connection.zrem(key, ...ids);
  const answers: boolean[] = [];
  for (let from = 0; from < jobs.length; from += AT_ONCE) {
    const some = jobs.slice(from, from + AT_ONCE);
    answers.push(...(await Promise.all(some.map((found) => cancelOne(found, parts)))));
  }
  return countsOf(target, answers, isDead);
}

/** One answer for each job. A notification and its replays count as one; `isDead`: it is a dead letter. */
function countsOf(target: CancelTarget, answers: readonly boolean[], isDead: boolean): Canceled {
  const canceled = answers.filter(Boolean).length;
  if (!('id' in target)) return { canceled, tooLate: answers.length - canceled };
  if (canceled > 0) return { canceled: 1, tooLate: 0 };
  return { canceled: 0, tooLate: answers.length > 0 || isDead ? 1 : 0 };
}

/** A notification that a cancel would find, as far as its job says. */
export interface Cancelable {
  readonly jobId: string;
  readonly recipientId: string;
  readonly countedAs: CountedAs;
  /** When it was enqueued first: epoch milliseconds. */
  readonly enqueuedAt: number;
  /** The number of its next ask. */
  readonly asks: number;
  /** False: it was canceled before, or it is too late for it. */
  readonly waits: boolean;
}

/** What `cancelWaiting` would find, and what it would answer. */
export interface Cancelables extends Canceled {
  readonly found: readonly Cancelable[];
}

/** What `cancelWaiting` would do now. Writes nothing. */
export async function findCancelable(target: CancelTarget, parts: FindParts): Promise<Cancelables> {
  const { jobs, isDead } = await find(target, parts);
  const stages = jobs.map(({ job }) => stageOf(job));
  const found = jobs.map(({ job, place: { recipientId, kind: countedAs } }, index): Cancelable => {
    const { asks = 0 } = progressOf(job);
    const waits = stages[index] === 'waits';
    return { jobId: job.id ?? '', recipientId, countedAs, enqueuedAt: firstEnqueuedAtOf(job), asks, waits };
  });
  const answers = stages.map((stage) => stage === 'waits' || stage === 'canceled');
  return { found, ...countsOf(target, answers, isDead) };
}

async function cancelOne({ queue, job, place }: Found, parts: CancelParts): Promise<boolean> {
  const stage = stageOf(job);
  if (stage !== 'waits') return stage === 'canceled';
  const { kind, ...scope } = place;
  const jobId = job.id ?? '';
  const { asks = 0 } = progressOf(job);
  const request = { ...scope, id: `${jobId}/${asks}`, enqueuedAt: firstEnqueuedAtOf(job) };
  const { canceled, leader } = await parts.deciders[kind].cancel(request);
  if (!canceled) return false;
  const after = await stageAfterPass(queue, jobId, parts.connection); // if it died meanwhile, its replay ends as canceled
  const leads = leader?.id?.replace(/\/\d+$/, '');
  await redelay(homesIn(scope.recipientId, parts), [
    { jobId, at: 0 },
    ...(leader !== undefined && leads !== undefined ? [{ jobId: leads, at: leader.at }] : []),
  ]);
  if (after === 'ended' || after === 'canceled') await parts.deciders[kind].forget(request); // the job may have ended before this cancel
  return after !== 'ended';
}

/**
 * The stage of a job when no pass of it is under way. The limiter forgets an admission after its longest window, but a send may
 * take longer: then the job lock shows that a pass is under way. A pass that sends nothing ends within milliseconds.
 */
async function stageAfterPass(queue: Queue, jobId: string, connection: Connection): Promise<Stage> {
  const deadline = performance.now() + PASS_MS;
  for (;;) {
    const isLocked = (await connection.exists(lockKeyOf(queue, jobId))) === 1; // before the job: a pass writes its end, then unlocks
    const job = await findJob(queue, jobId);
    const stage = job === undefined ? 'waits' : stageOf(job);
    if (stage !== 'waits' || !isLocked || performance.now() > deadline) return stage;
    await sleep(LOOK_MS);
  }
}

/** `ended`: the notification has ended in another way, or may have alerted a device. */
type Stage = 'waits' | 'canceled' | 'dead' | 'ended';

function stageOf(job: Job<unknown>): Stage {
  if (job.finishedOn !== undefined) {
    const { outcome } = (job.returnvalue ?? {}) as Partial<Completion>;
    if (outcome === 'canceled') return 'canceled';
    const { failedReason } = job as Partial<Job<unknown>>; // BullMQ's type has this field for all jobs
    return outcome === undefined && failedReason !== undefined ? 'dead' : 'ended';
  }
  return mayBeSeen(progressOf(job)) ? 'ended' : 'waits';
}

/** The part of a job's progress that is read here; delivery/progress.ts has all of it. */
interface Progress {
  readonly devices?: Readonly<Record<string, unknown>>;
  readonly ambiguous?: number;
  readonly trying?: readonly string[];
  readonly asks?: number;
}

function progressOf({ progress }: Job<unknown>): Progress {
  return typeof progress === 'object' ? progress : {};
}

/** A notification's job. */
interface Found {
  readonly queue: Queue;
  readonly job: Job<unknown>;
  readonly place: PlaceInLimits;
}

interface AllFound {
  readonly jobs: readonly Found[];
  /** The notification is a dead letter. */
  readonly isDead: boolean;
  /** By the key of an index of cancellation keys: the ids in it whose jobs are gone. */
  readonly gone: ReadonlyMap<string, readonly string[]>;
}

function find(target: CancelTarget, parts: FindParts): Promise<AllFound> {
  return 'id' in target ? findById(target.id, parts) : findByKey(target, parts);
}

/** A producer may use an id again. This many more dead letters of an id are looked for: `msg-1#d1`, `msg-1#d2`, … */
const MOST_SAME_ID = 20;

/** The jobs of a notification: its own and those of its replays, in any shard. */
async function findById(id: string, { connection, queues }: FindParts): Promise<AllFound> {
  const jobId = jobIdOf(id);
  const jobIds = [jobId, ...replayIdsOf(jobId)];
  const deadIds = [...jobIds, ...Array.from({ length: MOST_SAME_ID }, (_, index) => `${jobId}#d${index + 1}`)];
  const look = async (): Promise<Found[]> => (await Promise.all(queues.map((queue) => jobsOf(queue, jobIds)))).flat();
  let jobs = await look();
  // While a job is moved, its new queue may answer just before the job comes, and its former queue just after the job has gone.
  if (jobs.length === 0 && queues.length > 1) jobs = await look();
  const dead = await Promise.all(
    queues.map((queue) => {
      const keys = deadIds.map((deadId) => `${queue.opts.prefix ?? ''}:${DEAD_LETTERS}:${deadId}`);
      return connection.exists(...keys);
    }),
  );
  return { jobs, isDead: dead.some((count) => count > 0), gone: new Map() };
}

/** The jobs that wait for a recipient under a cancellation key. */
async function findByKey(place: KeyPlace, parts: FindParts): Promise<AllFound> {
  const homes = homesIn(place.recipientId, parts);
  const keys = homes.map(({ opts }) =>
    cancellationIndexKey(opts.prefix ?? '', place.recipientId, place.cancellationKey),
  );
  const indexed = await toAndFro(keys, (key) => parts.connection.zrange(key, '0', '-1'));
  const jobIds = [...new Set(indexed.flatMap(([, ids]) => ids))];
  // While a job is moved, it is in two queues for a moment.
  const jobs = new Map<string, Found>();
  for (const [home, found] of await toAndFro(homes, (queue) => jobsOf(queue, jobIds))) {
    for (const each of found) if (home === homes[0] || !jobs.has(each.job.id ?? '')) jobs.set(each.job.id ?? '', each);
  }
  const gone = new Map(indexed.map(([key, ids]) => [key, ids.filter((id) => !jobs.has(id))]));
  // A duplicate may have added its id to an index although the notification that has the id has another cancellation key.
  const own = [...jobs.values()].filter(({ job }) => {
    const { recipientId, cancellationKey } = job.data as Partial<KeyPlace>;
    return recipientId === place.recipientId && cancellationKey === place.cancellationKey;
  });
  return { jobs: own, isDead: false, gone };
}

/**
 * Reads from each home of a recipient, one after the other and back again: so a job that is moved meanwhile is found, in
 * whichever direction it is moved. The layout that this process knows may be one change behind.
 */
async function toAndFro<Home, T>(homes: readonly Home[], read: (home: Home) => Promise<T>): Promise<[Home, T][]> {
  const answers: [Home, T][] = [];
  for (const home of [...homes.toReversed(), ...homes.slice(1)]) answers.push([home, await read(home)]);
  return answers;
}

/** The queues that may have notifications of a recipient. */
function homesIn(recipientId: string, { queues, homes }: Pick<CancelParts, 'queues' | 'homes'>): Queue[] {
  return queuesAt(homes(recipientId), queues);
}

/** The jobs with these ids that exist, and are notifications whose recipient can be read. */
async function jobsOf(queue: Queue, jobIds: readonly string[]): Promise<Found[]> {
  const jobs = await Promise.all(jobIds.map((jobId) => findJob(queue, jobId)));
  return jobs.flatMap((job) => {
    const place = job === undefined || job.name === CANCEL ? undefined : placeOf(job.data);
    return job === undefined || place === undefined ? [] : [{ queue, job, place }];
  });
}
