import type { Job, Queue } from 'bullmq';
import type { Connection } from '../redis/connection.ts';
import { findJob } from './readable.ts';
import type { KeyPlace } from './cancellation-index.ts';
import { CANCEL, cancellationIndexKey, DEAD_LETTERS, jobIdOf, replayIdsOf } from './names.ts';
import { shardOf } from './shards.ts';

/** A notification's job. */
export interface Found {
  readonly queue: Queue;
  readonly job: Job<unknown>;
}

interface Queues {
  readonly connection: Connection;
  readonly queues: readonly Queue[];
}

/** So many replays of one notification are looked for. */
const MOST_REPLAYS = 20;

/** The jobs of a notification: its own and those of replays, in any shard; and whether it is a dead letter. */
export async function findById(
  id: string,
  { connection, queues }: Queues,
): Promise<{ readonly jobs: readonly Found[]; readonly isDead: boolean }> {
  const jobId = jobIdOf(id);
  const jobIds = [jobId, ...replayIdsOf(jobId, MOST_REPLAYS)];
  const deadIds = [...jobIds, ...Array.from({ length: MOST_REPLAYS }, (_, index) => `${jobId}#d${index + 1}`)];
  const found = await Promise.all(queues.map((queue) => jobsOf(queue, jobIds)));
  const dead = await Promise.all(
    queues.map((queue) => {
      const keys = deadIds.map((deadId) => `${queue.opts.prefix ?? ''}:${DEAD_LETTERS}:${deadId}`);
      return connection.exists(...keys);
    }),
  );
  return { jobs: found.flat(), isDead: dead.some((count) => count > 0) };
}

/** The jobs that wait for a recipient under a cancellation key. Ids whose jobs are gone are removed from the index. */
export async function findByKey(place: KeyPlace, { connection, queues }: Queues): Promise<readonly Found[]> {
  const queue = queues[shardOf(place.recipientId, queues.length)];
  if (queue === undefined) return [];
  const key = cancellationIndexKey(queue.opts.prefix ?? '', place.recipientId, place.cancellationKey);
  const jobIds = await connection.zrange(key, '0', '-1');
  const jobs = await jobsOf(queue, jobIds);
  const known = new Set(jobs.map(({ job }) => job.id));
  const gone = jobIds.filter((jobId) => !known.has(jobId));
  if (gone.length > 0) await connection.zrem(key, ...gone);
  // A duplicate may have noted its id under another key than the notification that has the id.
  return jobs.filter(({ job }) => {
    const { recipientId, cancellationKey } = job.data as Partial<KeyPlace>;
    return recipientId === place.recipientId && cancellationKey === place.cancellationKey;
  });
}

/** Those that exist, and are notifications whose recipient can be read. */
async function jobsOf(queue: Queue, jobIds: readonly string[]): Promise<Found[]> {
  const jobs = await Promise.all(jobIds.map((jobId) => findJob(queue, jobId)));
  return jobs.flatMap((job) =>
    job !== undefined && job.name !== CANCEL && hasRecipient(job.data) ? [{ queue, job }] : [],
  );
}

function hasRecipient(data: unknown): boolean {
  return typeof (data as Partial<KeyPlace> | null | undefined)?.recipientId === 'string';
}
