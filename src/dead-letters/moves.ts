import type { Queue } from 'bullmq';
import { outcomeFields, type Outcome } from '../domain/ended.ts';
import { JOB, outcomesKey } from '../queue/names.ts';
import { ID_KEPT_S } from '../queue/retention.ts';
import { defineQueueScript } from '../redis/scripts.ts';

/** `gone`: the job is not there any more. `taken`: the new id exists already. Nothing is written in these two cases. */
export type Moved = 'moved' | 'gone' | 'taken';

/** `kept`: there are no more than are to be kept. Nothing is written unless it was discarded. */
export type Discarded = 'discarded' | 'gone' | 'kept';

/** A job to write into the other queue. */
export interface NewJob {
  readonly id: string;
  readonly data: unknown;
  readonly options: Readonly<Record<string, unknown>>;
}

/** A job to write into the notifications' queue. `progress`: what was delivered before, so that it is not sent again. */
export interface ReplayedJob extends NewJob {
  readonly priority: number;
  readonly progress?: object | undefined;
}

/** The scripts that write BullMQ's keys. Each one moves or removes a job in one step. */
export interface Moves {
  /** bury.lua: from the failed jobs of `queue` into `deadQueue`; its outcome goes to the stream, if that keeps any. */
  bury(jobId: string, deadLetter: NewJob, outcome?: Outcome): Promise<Moved>;
  /** replay.lua: from `deadQueue` into `queue`. */
  replay(deadLetterId: string, job: ReplayedJob): Promise<Moved>;
  /** discard.lua: removes it from `deadQueue` for good, if there are more than `keep`. */
  discard(deadLetterId: string, keep: number): Promise<Discarded>;
}

/** A job's other keys besides its hash: the list is from BullMQ's removeJobKeys. */
const JOB_PARTS = ['logs', 'dependencies', 'processed', 'failed', 'unsuccessful'];

const BURY = defineQueueScript<Moved>(new URL('bury.lua', import.meta.url), 7 + JOB_PARTS.length);
const REPLAY = defineQueueScript<Moved>(new URL('replay.lua', import.meta.url), 7 + JOB_PARTS.length);
const DISCARD = defineQueueScript<Discarded>(new URL('discard.lua', import.meta.url), 3 + JOB_PARTS.length);

/** @param outcomesMax about how many outcomes their stream keeps; 0: there is no stream */
export function createMoves(queue: Queue, deadQueue: Queue, outcomesMax = 0): Moves {
  return {
    bury: (jobId, { id, data, options }, outcome) =>
      BURY(queue, [
        ...[queue.toKey('failed'), queue.toKey(jobId)],
        ...[deadQueue.toKey('wait'), deadQueue.toKey(id), deadQueue.toKey('marker'), deadQueue.toKey('events')],
        ...[outcomesKey(queue.opts.prefix ?? ''), ...partsOf(queue, jobId)],
        ...[jobId, id, JOB, json(data), JSON.stringify({ ...options, jobId: id }), ID_KEPT_S],
        ...(outcome === undefined || outcomesMax === 0 ? [0] : [outcomesMax, ...outcomeFields(outcome)]),
      ]),
    replay: (deadLetterId, { id, data, options, priority, progress }) =>
      REPLAY(queue, [
        ...[deadQueue.toKey('wait'), deadQueue.toKey(deadLetterId), queue.toKey(id), queue.toKey('prioritized')],
        ...[queue.toKey('pc'), queue.toKey('marker'), queue.toKey('events')],
        ...partsOf(deadQueue, deadLetterId),
        ...[deadLetterId, id, JOB, json(data), JSON.stringify({ ...options, priority, jobId: id }), priority],
        progress === undefined ? '' : JSON.stringify(progress),
      ]),
    discard: (deadLetterId, keep) =>
      DISCARD(deadQueue, [
        ...[deadQueue.toKey('wait'), deadQueue.toKey(deadLetterId), deadQueue.toKey('events')],
        ...partsOf(deadQueue, deadLetterId),
        ...[deadLetterId, keep],
      ]),
  };
}

/** Missing data is stored as `null`, since JSON has no `undefined`. */
function json(data: unknown): string {
  return JSON.stringify(data ?? null);
}

function partsOf(queue: Queue, jobId: string): string[] {
  return JOB_PARTS.map((part) => `${queue.toKey(jobId)}:${part}`);
}
