import type { Job, Queue } from 'bullmq';
import type { DeadLetter } from '../domain/outcome.ts';
import { deadLetterOf } from './dead-letter.ts';
import { createMoves, type Moved } from './moves.ts';
import { PRIORITY, replayIdOf } from './names.ts';
import { KEEP_COMPLETED } from './retention.ts';

/** A dead letter in its queue. */
export interface StoredDeadLetter {
  /** The id of its job in `dead-letters`. */
  readonly id: string;
  /** When it came there: epoch milliseconds on Redis's clock. */
  readonly buriedAt: number;
  readonly letter: DeadLetter;
}

/** The dead letters of one queue. Whoever is killed at whatever instant: none is lost, none is there twice. */
export interface DeadLetters {
  /** Makes a failed job a dead letter. False where it is not among the failed ones (any more). */
  bury(jobId: string): Promise<boolean>;
  /** Buries every job that has failed, also those whose worker was killed before it could; answers how many. */
  sweep(): Promise<number>;
  /** Puts one back into the queue, and answers its new id; undefined where it is not there (any more). */
  replay(stored: StoredDeadLetter): Promise<string | undefined>;
  count(): Promise<number>;
  /** So many after the first `offset`, oldest first; fewer only at the end. */
  page(offset: number, limit: number): Promise<StoredDeadLetter[]>;
}

export interface DeadLettersOptions {
  /** The queue `notifications`. */
  readonly queue: Queue;
  /** The queue `dead-letters`, under the same prefix: in a cluster both must lie in one slot. */
  readonly deadQueue: Queue;
  /** For a job that failed without a time. */
  readonly now?: () => number;
}

const PAGE = 100;

export function createDeadLetters({ queue, deadQueue, now = Date.now }: DeadLettersOptions): DeadLetters {
  const moves = createMoves(queue, deadQueue);

  async function buryJob(job: Job): Promise<boolean> {
    const jobId = idOf(job);
    const data = deadLetterOf(job, now());
    // The id is taken where a producer has used it anew, an hour or more after its first dead letter.
    const ids = (attempt: number) => (attempt === 0 ? jobId : `${jobId}#d${attempt}`);
    const id = await underFreeId(ids, (id) => moves.bury(jobId, { id, data, options: { attempts: 0 } }));
    return id !== undefined;
  }

  return {
    async bury(jobId) {
      const job = (await queue.getJob(jobId)) as Job | undefined;
      return job !== undefined && buryJob(job);
    },
    async sweep() {
      let buried = 0;
      // From the start each time: what is buried leaves the set.
      for (let jobs = await oldest(queue); jobs.length > 0; jobs = await oldest(queue)) {
        const done = await Promise.all(jobs.map(buryJob));
        buried += done.filter(Boolean).length;
      }
      return buried;
    },
    replay({ id: deadLetterId, letter }) {
      const { notification: data } = letter;
      const generation = letter.generation + 1;
      const options = { attempts: 0, removeOnComplete: KEEP_COMPLETED, removeOnFail: false, generation };
      const ids = (attempt: number) => replayIdOf(deadLetterId, generation + attempt);
      return underFreeId(ids, (id) => moves.replay(deadLetterId, { id, data, options, priority: priorityOf(data) }));
    },
    count: () => deadQueue.getJobCountByTypes('wait'),
    async page(offset, limit) {
      const jobs = (await deadQueue.getJobs(['wait'], offset, offset + limit - 1, true)) as Job<DeadLetter>[];
      return jobs.map((job) => ({ id: idOf(job), buriedAt: job.timestamp, letter: job.data }));
    },
  };

  function oldest(from: Queue): Promise<Job[]> {
    return from.getJobs(['failed'], 0, PAGE - 1, true);
  }
}

/** Moves under the first id that is free; undefined where there is nothing to move. */
async function underFreeId(
  ids: (attempt: number) => string,
  move: (id: string) => Promise<Moved>,
): Promise<string | undefined> {
  for (let attempt = 0; ; attempt++) {
    const id = ids(attempt);
    const moved = await move(id);
    if (moved === 'moved') return id;
    if (moved === 'gone') return undefined;
  }
}

function priorityOf(notification: unknown): number {
  const isHigh = (notification as { readonly priority?: unknown } | null | undefined)?.priority === 'high';
  return isHigh ? PRIORITY.high : PRIORITY.normal;
}

/** BullMQ's types know of jobs that were not added yet; these were. */
function idOf(job: Job): string {
  return job.id ?? '';
}
