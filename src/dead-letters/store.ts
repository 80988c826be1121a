import type { Queue } from 'bullmq';
import type { Outcome } from '../domain/ended.ts';
import { deadLetterOf, isDecided, replayProgress } from './letter.ts';
import { outcomeOf } from './outcome.ts';
import { findDeadLetter, pageOfDeadLetters, walkDeadLetters, type StoredDeadLetter } from './list.ts';
import { forgetJob, readJob, type JobHash } from './job-hash.ts';
import { createMoves, type Discarded, type Moved } from './moves.ts';
import { PRIORITY, replayIdOf } from '../queue/names.ts';
import { KEEP_COMPLETED } from '../queue/retention.ts';

export type { StoredDeadLetter } from './list.ts';

/** The dead letters of one queue. None is lost and none exists twice, even if a process is killed at any instant. */
export interface DeadLetters {
  /** Makes a failed job a dead letter. False if it is not among the failed jobs (any more). */
  bury(jobId: string): Promise<boolean>;
  /** Makes every failed job a dead letter, also those of workers that were killed before they could. Answers how many. */
  sweep(): Promise<number>;
  /** Puts one back into the queue and answers its new job id; undefined if it does not exist (any more). */
  replay(stored: StoredDeadLetter): Promise<string | undefined>;
  /** Removes one for good, if there are more than `keep` (default 0). `gone` if it does not exist any more. */
  discard(id: string, keep?: number): Promise<Discarded>;
  count(): Promise<number>;
  find(id: string): Promise<StoredDeadLetter | undefined>;
  /** At most `limit` after the first `offset`, oldest first. */
  page(offset: number, limit: number): Promise<StoredDeadLetter[]>;
  /** All of them, oldest first, page by page; works while others are replayed or removed. */
  walk(): AsyncIterable<StoredDeadLetter[]>;
}

export interface DeadLettersOptions {
  /** The queue `notifications`. */
  readonly queue: Queue;
  /** The queue `dead-letters`, under the same prefix: in a cluster both must lie in one slot. */
  readonly deadQueue: Queue;
  /** The time of death for a job that failed without one. */
  readonly now?: () => number;
  /** About how many outcomes their stream keeps; 0 (the default): there is no stream. */
  readonly outcomesMax?: number;
  /** Called with each dead letter that no pass of a worker decided on: its job stalled too often, or BullMQ could not run it. */
  readonly onDiedUnseen?: (jobId: string, outcome: Outcome, message: string) => void;
}

const PAGE = 100;

export function createDeadLetters(options: DeadLettersOptions): DeadLetters {
  const { queue, deadQueue, now = Date.now, outcomesMax = 0, onDiedUnseen } = options;
  const moves = createMoves(queue, deadQueue, outcomesMax);

  async function buryJob(jobId: string, job: JobHash): Promise<boolean> {
    const data = deadLetterOf(job, now());
    // The id is taken if a producer has used it again, an hour or more after its first dead letter.
    const ids = (attempt: number) => (attempt === 0 ? jobId : `${jobId}#d${attempt}`);
    const outcome = outcomeOf(jobId, job, data);
    const id = await underFreeId(ids, (id) => moves.bury(jobId, { id, data, options: { attempts: 0 } }, outcome));
    if (id !== undefined && !isDecided(job)) onDiedUnseen?.(jobId, outcome, data.message);
    return id !== undefined;
  }

  async function bury(jobId: string): Promise<boolean> {
    const job = await readJob(queue, jobId);
    return job !== undefined && buryJob(jobId, job);
  }

  async function buryOrForget(jobId: string): Promise<boolean> {
    const isBuried = await bury(jobId);
    if (!isBuried) await forgetJob(queue, 'failed', jobId);
    return isBuried;
  }

  async function oldestFailed(): Promise<string[]> {
    const client = await queue.getBackend().client;
    return client.zrange(queue.toKey('failed'), 0, PAGE - 1);
  }

  return {
    bury,
    async sweep() {
      let buried = 0;
      // From the start each time, since each job leaves the set when it becomes a dead letter.
      for (let ids = await oldestFailed(); ids.length > 0; ids = await oldestFailed()) {
        const done = await Promise.all(ids.map(buryOrForget));
        buried += done.filter(Boolean).length;
      }
      return buried;
    },
    replay({ id: deadLetterId, letter }) {
      const { notification: data } = letter;
      const generation = letter.generation + 1;
      const options = { attempts: 0, removeOnComplete: KEEP_COMPLETED, removeOnFail: false, generation };
      const [priority, progress] = [priorityOf(data), replayProgress(letter)];
      const ids = (attempt: number) => replayIdOf(deadLetterId, generation + attempt);
      return underFreeId(ids, (id) => moves.replay(deadLetterId, { id, data, options, priority, progress }));
    },
    discard: (id, keep = 0) => moves.discard(id, keep),
    count: () => deadQueue.getJobCountByTypes('wait'),
    find: (id) => findDeadLetter(deadQueue, id),
    page: (offset, limit) => pageOfDeadLetters(deadQueue, offset, limit),
    walk: () => walkDeadLetters(deadQueue),
  };
}

/** Moves the job under the first free id; undefined if there is nothing to move. */
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
