import type { Queue } from 'bullmq';
import { JOB } from '../queue/names.ts';
import { ID_KEPT_S } from '../queue/retention.ts';
import { defineQueueScript } from '../redis/scripts.ts';

/** `gone`: it is not where it was to be taken from; `taken`: the new id exists. Nothing is written in both. */
export type Moved = 'moved' | 'gone' | 'taken';

/** `kept`: there are no more than were to be kept. Nothing is written unless it was discarded. */
export type Discarded = 'discarded' | 'gone' | 'kept';

/** A job to be written into the other queue. */
export interface NewJob {
  readonly id: string;
  readonly data: unknown;
  readonly options: Readonly<Record<string, unknown>>;
}

/** A job that is to be done with, as if it had come this far already. */
export interface ReplayedJob extends NewJob {
  readonly priority: number;
  readonly progress?: object | undefined;
}

/** The scripts that write BullMQ's keys: each takes a job away from where it is in one step. */
export interface Moves {
  /** bury.lua: from the failed jobs of `queue` into `deadQueue`. */
  bury(jobId: string, deadLetter: NewJob): Promise<Moved>;
  /** replay.lua: from `deadQueue` into `queue`. */
  replay(deadLetterId: string, job: ReplayedJob): Promise<Moved>;
  /** discard.lua: out of `deadQueue` for good, where there are more than `keep`. */
  discard(deadLetterId: string, keep: number): Promise<Discarded>;
}

/** A job's keys beside its hash, as BullMQ's removeJobKeys has them. */
const JOB_PARTS = ['logs', 'dependencies', 'processed', 'failed', 'unsuccessful'];

const BURY = defineQueueScript<Moved>(new URL('bury.lua', import.meta.url), 6 + JOB_PARTS.length);
const REPLAY = defineQueueScript<Moved>(new URL('replay.lua', import.meta.url), 7 + JOB_PARTS.length);
const DISCARD = defineQueueScript<Discarded>(new URL('discard.lua', import.meta.url), 3 + JOB_PARTS.length);

export function createMoves(queue: Queue, deadQueue: Queue): Moves {
  return {
    bury: (jobId, { id, data, options }) =>
      BURY(queue, [
        ...[queue.toKey('failed'), queue.toKey(jobId)],
        ...[deadQueue.toKey('wait'), deadQueue.toKey(id), deadQueue.toKey('marker'), deadQueue.toKey('events')],
        ...partsOf(queue, jobId),
        ...[jobId, id, JOB, json(data), JSON.stringify({ ...options, jobId: id }), ID_KEPT_S],
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

/** A job without data is one with `null`: `undefined` is no JSON. */
function json(data: unknown): string {
  return JSON.stringify(data ?? null);
}

function partsOf(queue: Queue, jobId: string): string[] {
  return JOB_PARTS.map((part) => `${queue.toKey(jobId)}:${part}`);
}
