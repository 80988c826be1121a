import { readFileSync } from 'node:fs';
import type { Queue } from 'bullmq';
import { JOB } from './names.ts';
import { ID_KEPT_S } from './retention.ts';

/** `gone`: it is not where it was to be taken from; `taken`: the new id exists. Nothing is written in both. */
export type Moved = 'moved' | 'gone' | 'taken';

/** A job to be written into the other queue. */
export interface NewJob {
  readonly id: string;
  readonly data: unknown;
  readonly options: Readonly<Record<string, unknown>>;
}

/** The two scripts that know BullMQ's keys: each moves a job from one queue to the other in one step. */
export interface Moves {
  /** bury.lua: from the failed jobs of `queue` into `deadQueue`. */
  bury(jobId: string, deadLetter: NewJob): Promise<Moved>;
  /** replay.lua: from `deadQueue` into `queue`. */
  replay(deadLetterId: string, job: NewJob & { readonly priority: number }): Promise<Moved>;
}

/** A job's keys beside its hash, as BullMQ's removeJobKeys has them. */
const JOB_PARTS = ['logs', 'dependencies', 'processed', 'failed', 'unsuccessful'];

const BURY = defineMove('pushpacer:bury', './bury.lua', 6 + JOB_PARTS.length);
const REPLAY = defineMove('pushpacer:replay', './replay.lua', 7 + JOB_PARTS.length);

export function createMoves(queue: Queue, deadQueue: Queue): Moves {
  return {
    bury: (jobId, { id, data, options }) =>
      BURY(queue, [
        ...[queue.toKey('failed'), queue.toKey(jobId)],
        ...[deadQueue.toKey('wait'), deadQueue.toKey(id), deadQueue.toKey('marker'), deadQueue.toKey('events')],
        ...partsOf(queue, jobId),
        ...[jobId, id, JOB, JSON.stringify(data), JSON.stringify({ ...options, jobId: id }), ID_KEPT_S],
      ]),
    replay: (deadLetterId, { id, data, options, priority }) =>
      REPLAY(queue, [
        ...[deadQueue.toKey('wait'), deadQueue.toKey(deadLetterId), queue.toKey(id), queue.toKey('prioritized')],
        ...[queue.toKey('pc'), queue.toKey('marker'), queue.toKey('events')],
        ...partsOf(deadQueue, deadLetterId),
        ...[deadLetterId, id, JOB, JSON.stringify(data), JSON.stringify({ ...options, priority, jobId: id }), priority],
      ]),
  };
}

type Move = (queue: Queue, args: readonly (string | number)[]) => Promise<Moved>;

function defineMove(name: string, file: string, numberOfKeys: number): Move {
  const lua = readFileSync(new URL(file, import.meta.url), 'utf8');
  const defined = new WeakSet();
  return async (queue, args) => {
    const client = await queue.getBackend().client;
    if (!defined.has(client)) client.defineCommand(name, { numberOfKeys, lua });
    defined.add(client);
    return (await client.runCommand(name, [...args])) as Moved;
  };
}

function partsOf(queue: Queue, jobId: string): string[] {
  return JOB_PARTS.map((part) => `${queue.toKey(jobId)}:${part}`);
}
