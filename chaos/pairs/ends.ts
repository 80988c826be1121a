import type { Redis } from 'ioredis';
import { createDeadLetters } from '../../src/dead-letters/store.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import { objectOr, valueAt } from '../../src/domain/json.ts';
import type { Completion } from '../../src/notification/outcome.ts';
import { dueAtOfScore, scoreOfDue } from '../../src/queue/bullmq-internals.ts';
import { notificationIdOf, outcomesKey } from '../../src/queue/names.ts';
import { createShards } from '../../src/queue/shards/shards.ts';
import { refOf } from '../workload.ts';
import { lifeAt, type DeadAtEnd, type End, type Life } from './facts.ts';

// How notifications ended, read from the queues and the streams of outcomes of all shards that there ever were.

export interface EndsRead {
  readonly ends: readonly End[];
  readonly dead: readonly DeadAtEnd[];
  /** Names of those whose job has not ended, with its state: `n17 delayed, due in 7140 s`. */
  readonly queued: readonly string[];
}

const OPEN = ['wait', 'active', 'delayed', 'prioritized', 'failed'] as const;
const FAR_MS = 60_000;
/** More than a run enqueues. */
const ALL = 100_000;

export async function readEnds(redis: Redis, prefix: string, lives: readonly Life[]): Promise<EndsRead> {
  const shards = createShards(redis, { prefix, shards: 1 });
  try {
    const read = (await shards.open()).map(async (shard): Promise<EndsRead> => {
      const { queue } = shard;
      const stream = await redis.xrange(outcomesKey(queue.opts.prefix ?? ''), '-', '+');
      const completed = await queue.getJobs(['completed'], 0, ALL);
      const open = await queue.getJobs([...OPEN], 0, ALL);
      const dead = await createDeadLetters(shard).page(0, ALL);
      return {
        ends: [
          ...stream.map(([at, fields]) => ofStream(at, fields, lives)),
          ...completed.flatMap((job) => (job.name === 'push' ? [ofJob(job, lives)] : [])),
        ].filter(({ life }) => !isRetraction(life)),
        dead: dead
          .filter((stored) => !isRetraction(nameOfLetter(stored)))
          .map((stored) => {
            const { reason, generation } = stored.letter;
            return { life: nameOfLetter(stored), letterId: stored.id, reason, generation };
          }),
        queued: await Promise.all(
          open.map(async (job) => {
            const due = await redis.zscore(queue.toKey('delayed'), job.id ?? '');
            const dueText =
              due === null ? '' : `, due in ${Math.round((dueAtOfScore(Number(due)) - Date.now()) / 1_000)} s`;
            return `${nameOfData(job.data)} ${await job.getState()}${dueText}`;
          }),
        ),
      };
    });
    const all = await Promise.all(read);
    return {
      ends: all.flatMap(({ ends }) => ends),
      dead: all.flatMap(({ dead }) => dead),
      queued: all.flatMap(({ queued }) => queued),
    };
  } finally {
    await shards.close();
  }
}

/**
 * How many jobs have not ended, in all shards that there ever were; without those that are delayed for longer than a drain can wait, when
 * nothing is blocked or quiet any more.
 */
export async function countOpen(redis: Redis, prefix: string): Promise<number> {
  const shards = createShards(redis, { prefix, shards: 1 });
  try {
    const counts = (await shards.open()).map(async ({ queue }) => {
      const open = await queue.getJobCountByTypes(...OPEN);
      return open - (await redis.zcount(queue.toKey('delayed'), scoreOfDue(Date.now() + FAR_MS), '+inf'));
    });
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  } finally {
    await shards.close();
  }
}

/** Retractions are enqueued by the product itself. What they did is judged by what the phones show. */
function isRetraction(name: string): boolean {
  return name.startsWith('retract-');
}

/** The name of a dead letter's notification. */
export function nameOfLetter({ letter }: StoredDeadLetter): string {
  return nameOfData(letter.notification);
}

function nameOfData(data: unknown): string {
  const ref = valueAt(data, 'data.ref');
  return typeof ref === 'string' ? refOf({ ref }) : String(valueAt(data, 'id'));
}

/** The stream does not say which notification of an id it was, but when that was enqueued or replayed. */
function ofStream(streamId: string, values: readonly string[], lives: readonly Life[]): End {
  const fields = Object.fromEntries(
    Array.from({ length: values.length / 2 }, (_, at) => [values[2 * at] ?? '', values[2 * at + 1] ?? '']),
  );
  const { id = '', by, reason, enqueuedAt, generation, outcome = 'none' } = fields;
  return {
    life: lifeAt(lives, id, Number(enqueuedAt))?.name ?? `${id} (unknown)`,
    generation: Number(generation),
    outcome,
    ...(by !== undefined && { by }),
    ...(reason !== undefined && { reason }),
    at: Number(streamId.split('-')[0]),
    from: 'stream',
  };
}

interface EndedJob {
  readonly id?: string | undefined;
  readonly timestamp: number;
  readonly finishedOn?: number | undefined;
  readonly opts: object;
  readonly returnvalue: unknown;
}

function ofJob({ id = '', timestamp, finishedOn, opts, returnvalue }: EndedJob, lives: readonly Life[]): End {
  const { outcome = 'none', by, devices } = objectOr(returnvalue) as Partial<Completion>;
  const { generation = 0 } = opts as { readonly generation?: number };
  const notificationId = notificationIdOf(id);
  return {
    life: lifeAt(lives, notificationId, timestamp)?.name ?? `${notificationId} (unknown)`,
    generation,
    outcome,
    ...(by !== undefined && { by }),
    ...(devices !== undefined && { devices }),
    at: finishedOn ?? timestamp,
    from: 'job',
  };
}
