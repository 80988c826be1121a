import type { Job, Queue } from 'bullmq';
import { placeOf, type PlaceInLimits } from '../domain/limits.ts';
import type { CancelTarget } from '../notification/notification.ts';
import { mayBeSeen, type Completion, type DeadDigest, type Seen } from '../notification/outcome.ts';
import type { KeyPlace } from '../queue/cancellation-index.ts';
import { cancellationIndexKey, DEAD_LETTERS, deadIdsOf, isOrder, jobIdOf, replayIdsOf } from '../queue/names.ts';
import { findJob } from '../queue/readable.ts';
import { queuesAt } from '../queue/shards/layout.ts';
import type { Connection } from '../redis/connection.ts';

/** What is needed to find the jobs of notifications that are to be canceled or retracted. */
export interface FindParts {
  /** The queue's Redis. */
  readonly connection: Connection;
  /** All queues that may have notifications. */
  readonly queues: readonly Queue[];
  /** The prefixes of the queues that may have notifications of a recipient, the prefix of the recipient's shard first. */
  readonly homes: (recipientId: string) => readonly string[];
}

/**
 * `dead`: it has failed for good, and is a dead letter or about to become one; its job is kept for an hour. `ended`: the
 * notification has ended in another way, or may have alerted a device.
 */
export type Stage = 'waits' | 'canceled' | 'dead' | 'ended';

export function stageOf(job: Job<unknown>): Stage {
  if (job.finishedOn !== undefined) {
    const { outcome } = (job.returnvalue ?? {}) as Partial<Completion>;
    if (outcome === 'canceled') return 'canceled';
    const { failedReason } = job as Partial<Job<unknown>>; // BullMQ's type has this field for all jobs
    return outcome === undefined && failedReason !== undefined ? 'dead' : 'ended';
  }
  return mayBeSeen(progressOf(job)) ? 'ended' : 'waits';
}

/** The part of a job's progress that is read here; delivery/progress.ts has all of it. */
export interface Progress extends Seen {
  readonly asks?: number;
  readonly attempts?: readonly unknown[];
  readonly digest?: DeadDigest;
}

export function progressOf({ progress }: Job<unknown>): Progress {
  return typeof progress === 'object' ? progress : {};
}

/** A notification's job. */
export interface Found {
  readonly queue: Queue;
  readonly job: Job<unknown>;
  readonly place: PlaceInLimits;
}

export interface AllFound {
  readonly jobs: readonly Found[];
  /** Dead letters of the notification: in each queue with one of these prefixes, at least one of these ids is a dead letter. */
  readonly dead: readonly { readonly prefix: string; readonly ids: readonly string[] }[];
  /** For each index of cancellation keys, by its key in Redis: the ids in this index whose jobs are gone. */
  readonly gone: ReadonlyMap<string, readonly string[]>;
}

export function find(target: CancelTarget, parts: FindParts): Promise<AllFound> {
  return 'id' in target ? findById(target.id, parts) : findByKey(target, parts);
}

/** The jobs of a notification and of its replays, in any shard. */
async function findById(id: string, { connection, queues }: FindParts): Promise<AllFound> {
  const jobId = jobIdOf(id);
  const jobIds = [jobId, ...replayIdsOf(jobId)];
  const look = async (): Promise<Found[]> => (await Promise.all(queues.map((queue) => jobsOf(queue, jobIds)))).flat();
  let jobs = await look();
  // While a job is moved, its new queue may answer just before the job comes, and its former queue just after the job has gone.
  if (jobs.length === 0 && queues.length > 1) jobs = await look();
  return { jobs, dead: await deadAmong(jobIds.flatMap(deadIdsOf), { connection, queues }), gone: new Map() };
}

/** The prefixes under which at least one of these ids is a dead letter. */
export async function deadAmong(
  ids: readonly string[],
  { connection, queues }: Pick<FindParts, 'connection' | 'queues'>,
): Promise<AllFound['dead']> {
  if (ids.length === 0) return [];
  const prefixes = queues.map(({ opts }) => opts.prefix ?? '');
  const counts = await Promise.all(
    prefixes.map((prefix) => connection.exists(...ids.map((id) => `${prefix}:${DEAD_LETTERS}:${id}`))),
  );
  return prefixes.filter((_, index) => (counts[index] ?? 0) > 0).map((prefix) => ({ prefix, ids }));
}

/** The jobs of a recipient under a cancellation key: waiting jobs, and ended jobs whose ids the index still has. */
export async function findByKey(place: KeyPlace, parts: FindParts): Promise<AllFound> {
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
  // An id in an index may belong to a notification with another cancellation key, for example if a producer used the id twice.
  const own = [...jobs.values()].filter(({ job }) => {
    const { recipientId, cancellationKey } = job.data as Partial<KeyPlace>;
    return recipientId === place.recipientId && cancellationKey === place.cancellationKey;
  });
  return { jobs: own, dead: [], gone };
}

/**
 * Reads from each queue that may have jobs of the recipient, from the last to the first and back. So a job that is moved
 * meanwhile is found, in whichever direction it is moved. The direction is not known, because the layout that this process has
 * may be one change behind.
 */
async function toAndFro<Home, T>(homes: readonly Home[], read: (home: Home) => Promise<T>): Promise<[Home, T][]> {
  const answers: [Home, T][] = [];
  for (const home of [...homes.toReversed(), ...homes.slice(1)]) answers.push([home, await read(home)]);
  return answers;
}

export function homesIn(recipientId: string, { queues, homes }: Pick<FindParts, 'queues' | 'homes'>): Queue[] {
  return queuesAt(homes(recipientId), queues);
}

/** The jobs with these ids that exist, and are notifications whose recipient can be read. */
export async function jobsOf(queue: Queue, jobIds: readonly string[]): Promise<Found[]> {
  const jobs = await Promise.all(jobIds.map((jobId) => findJob(queue, jobId)));
  return jobs.flatMap((job) => {
    const place = job === undefined || isOrder(job.name) ? undefined : placeOf(job.data);
    return job === undefined || place === undefined ? [] : [{ queue, job, place }];
  });
}
