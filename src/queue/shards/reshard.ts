import type { Queue } from 'bullmq';
import { isObject, parseJson, valueAt } from '../../domain/json.ts';
import { pause } from '../../domain/time.ts';
import type { Connection } from '../../redis/connection.ts';
import { defineQueueScript } from '../../redis/scripts.ts';
import { homeOf, type Layout, type LayoutLease } from './layout.ts';
import {
  cancellationIndexKey,
  DEAD_LETTERS,
  historyKeys,
  ID_KEPT_S,
  jobIdOf,
  moveKeys,
  QUEUE,
  RETRACT,
} from '../names.ts';
import type { ShardQueues } from './shards.ts';

/**
 * Moves jobs and stories from former queues to the queues that their recipients have now. The two queues are in different hash
 * slots, so a job is moved in steps:
 *
 * 1. take: the job leaves its state in the former queue, and a note about it is added to `moving`. Its hash stays.
 * 2. put: the job is added to the new queue, and its note to `moved`, so that a second put does nothing.
 * 3. drop: its hash in the former queue is removed, and a mark keeps the id (marks.lua).
 * 4. its note is removed from `moved`.
 *
 * If a process is killed after any step, the next process can go on: it first puts the jobs in `moving`. Each script refuses a
 * process that stood still and lost its lease to another process.
 */
export interface Mover {
  /**
   * Moves one batch of each former queue, and answers how many. First jobs that a worker could take, then delayed jobs by due
   * time, then ended jobs, then dead letters, then stories.
   */
  moveSome(): Promise<number>;
  /** What is still in the former queues. */
  left(): Promise<Left>;
  /**
   * To be called when nothing is left: removes the notes in `moved` that a killed process left (they would expire within a day),
   * and of the former queues what would stay for ever.
   */
  tidy(): Promise<void>;
  /** How many jobs were moved so far, and how many were dropped because their id is taken. */
  readonly counts: { readonly moved: number; readonly dropped: number; readonly byPrefix: ReadonlyMap<string, number> };
}

export interface Left {
  /** Notifications that wait or have ended, and dead letters. */
  readonly jobs: number;
  /** Jobs that workers have now: they end, or are put back. Jobs of a killed worker come back when their locks expire. */
  readonly active: number;
  readonly stories: number;
  /** One of the queues is paused: nothing is taken from it. */
  readonly isPaused: boolean;
}

/** The lease is gone: another process has it and goes on with the moves. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';
}

export interface MoverParts {
  readonly connection: Connection;
  readonly layout: Layout;
  readonly lease: Pick<LayoutLease, 'fence'>;
  readonly open: (prefix: string) => Promise<ShardQueues>;
  /**
   * Makes dead letters of the failed jobs of a shard, and answers how many. Only a worker can give back what a notification held,
   * so without `bury`, as in the command, failed jobs stay where they are, and are not counted as left: a worker sweeps them.
   */
  readonly bury?: (shard: ShardQueues) => Promise<number>;
  /** Called between two steps, for tests that stop there. */
  readonly onStep?: ((step: 'taken' | 'put' | 'dropped') => void | Promise<void>) | undefined;
}

/** A batch is small, since one command for a batch takes Redis some milliseconds. */
const BATCH = 100;
const BATCH_BYTES = 1_000_000;
/** The states that jobs are taken from, in this order. */
const LIVE = ['moving', 'stalled', 'wait', 'prioritized', 'delayed'] as const;
const ENDED = ['completed'] as const;
const DEAD = ['moving', 'dead'] as const;

/**
 * What BullMQ leaves of a queue without jobs. A process that still uses the queue makes these keys anew and misses nothing. `id`
 * stays: it counts the ids of jobs that were added without one, and those of this hour are marked. So does `meta`: it may say that
 * the queue is paused. Both are small.
 */
const LEFT_OVER = ['events', 'marker', 'pc', 'stalled'] as const;

type Fields = readonly string[];
type Keeper = readonly [id: string, ttlMs: number, fields: Fields];
type Taken = readonly [note: string, id: string, state: string, at: string, fields: Fields, keepers: readonly Keeper[]];

const TAKE = defineQueueScript<Taken[] | -1>(new URL('reshard-take.lua', import.meta.url), 8);
const PUT = defineQueueScript<[put: number, dropped: number]>(new URL('reshard-put.lua', import.meta.url), 12);
const DROP = defineQueueScript<number>(new URL('reshard-drop.lua', import.meta.url), 2);
const REMOVE = defineQueueScript<number>(new URL('reshard-remove.lua', import.meta.url), 2);

export function createMover({ connection, layout, lease: { fence }, open, bury, onStep }: MoverParts): Mover {
  const sources = [...new Set(layout.former.flat())].filter((prefix) => !layout.prefixes.includes(prefix));
  const byPrefix = new Map<string, number>();
  let [moved, dropped] = [0, 0];

  /** Moves one batch of one queue, from the first of these states that has jobs. */
  async function moveBatch(source: string, name: 'queue' | 'deadQueue', states: readonly string[]): Promise<number> {
    const { [name]: from, queue: notifications } = await open(source);
    const taken = await take(from, notifications, fence, states);
    if (taken === -1) throw new LeaseLostError('another process moves the jobs');
    if (taken.length === 0) return 0;
    await onStep?.('taken');
    const jobs = await Promise.all(taken.map((job) => described(job, from, connection)));
    const ofNobody = jobs.filter(({ isIdTaken }) => isIdTaken);
    for (const target of ofNobody.length > 0 ? layout.prefixes : []) await putInto(target, name, ofNobody);
    for (const [target, some] of Map.groupBy(jobs, ({ recipientId }) => homeOf(recipientId, layout))) {
      const { put, left } = await putInto(target, name, some);
      await onStep?.('put');
      const { moving, mover } = moveKeys(source);
      const kept = name === 'queue' ? ID_KEPT_S : 0;
      const pairs = some.flatMap(({ id, indexKey }) => [id, indexKey]);
      const gone = await DROP(from, [moving, mover, fence, from.name, from.toKey(''), kept, ...pairs]);
      if (gone === -1) throw new LeaseLostError('another process moves the jobs');
      await onStep?.('dropped');
      await connection.srem(moveKeys(target).moved, ...some.map(({ taken: [note] }) => note));
      moved += put;
      dropped += left;
      byPrefix.set(target, (byPrefix.get(target) ?? 0) + put);
    }
    return jobs.length;
  }

  async function putInto(
    target: string,
    name: 'queue' | 'deadQueue',
    jobs: readonly Described[],
  ): Promise<{ readonly put: number; readonly left: number }> {
    const { [name]: to, queue: notifications } = await open(target);
    const [put, left] = await PUT(to, putArgs(to, notifications, fence, jobs, target));
    if (put === -1) throw new LeaseLostError('another process moves the jobs');
    return { put, left };
  }

  async function remove(prefix: string, keys: readonly string[]): Promise<void> {
    const { queue } = await open(prefix);
    for (const key of keys) {
      const removed = await REMOVE(queue, [moveKeys(prefix).mover, key, fence]);
      if (removed === -1) throw new LeaseLostError('another process moves the jobs');
    }
  }

  /** Calls `move` for each former queue, in turn. */
  async function fromAll(move: (source: string) => Promise<number>): Promise<number> {
    let count = 0;
    for (const source of sources) count += await move(source);
    return count;
  }

  /** Moves one batch of dead letters from the queue that has the newest one. */
  async function moveDead(): Promise<number> {
    const shards = await Promise.all(sources.map((source) => open(source)));
    const newest = await Promise.all(shards.map(({ deadQueue }) => newestAt(deadQueue, connection)));
    const order = sources.map((source, index) => ({ source, at: newest[index] ?? 0 })).toSorted((a, b) => b.at - a.at);
    for (const { source } of order) {
      const count = await moveBatch(source, 'deadQueue', DEAD);
      if (count > 0) return count;
    }
    return 0;
  }

  return {
    get counts() {
      return { moved, dropped, byPrefix };
    },
    async moveSome() {
      return (
        (await fromAll((source) => moveBatch(source, 'queue', LIVE))) ||
        (await fromAll((source) => moveBatch(source, 'queue', ENDED))) ||
        (await fromAll(async (source) => bury?.(await open(source)) ?? 0)) ||
        (await moveDead()) ||
        (await fromAll((source) => moveStories(source, layout, connection)))
      );
    },
    async left() {
      const each = await Promise.all(
        sources.map(async (source) => leftIn(await open(source), connection, bury !== undefined)),
      );
      const sum = (name: 'jobs' | 'active' | 'stories'): number => each.reduce((total, left) => total + left[name], 0);
      const isPaused = each.some((left) => left.isPaused && left.jobs > 0);
      return { jobs: sum('jobs'), active: sum('active'), stories: sum('stories'), isPaused };
    },
    async tidy() {
      for (const prefix of layout.prefixes) await remove(prefix, [moveKeys(prefix).moved]);
      for (const source of sources) {
        const { queue, deadQueue } = await open(source);
        const keys = LEFT_OVER.flatMap((name) => [queue.toKey(name), deadQueue.toKey(name)]);
        await remove(source, keys);
      }
    },
  };
}

function take(from: Queue, notifications: Queue, fence: number, states: readonly string[]): Promise<Taken[] | -1> {
  const { moving, mover } = moveKeys(from.opts.prefix ?? '');
  const lists = ['wait', 'prioritized', 'delayed', 'completed', 'active'].map((state) => from.toKey(state));
  const names = [from.name, from.toKey(''), notifications.toKey('')];
  return TAKE(from, [...lists, moving, mover, from.toKey('meta'), fence, ...names, BATCH, BATCH_BYTES, ...states]);
}

/** A taken job, with the fields that decide where it is put. */
interface Described {
  readonly id: string;
  readonly recipientId: string;
  /** The job only keeps an id that a retract has taken. Its recipient is not known, so the job is put into every queue. */
  readonly isIdTaken: boolean;
  readonly taken: Taken;
  /** The key of the cancellation index in the former shard that contains the job; empty if none does. */
  readonly indexKey: string;
  readonly cancellationKey: string;
  readonly indexScore: string;
}

async function described(taken: Taken, from: Queue, connection: Connection): Promise<Described> {
  const [, id, , , fields] = taken;
  const field = (name: string): string => fields.find((_, at) => at % 2 === 1 && fields[at - 1] === name) ?? '';
  const data = parseJson(field('data'));
  const isIdTaken = field('name') === RETRACT && jobIdOf(textOf(valueAt(data, 'id'))) === id;
  const notification = from.name === DEAD_LETTERS && isObject(data) ? valueAt(data, 'notification') : data;
  // As elsewhere, a job without a recipient counts as one of the recipient with the empty name.
  const recipientId = textOf(valueAt(notification, 'recipientId'));
  const cancellationKey = from.name === QUEUE ? textOf(valueAt(notification, 'cancellationKey')) : '';
  if (cancellationKey === '')
    return { id, recipientId, isIdTaken, taken, indexKey: '', cancellationKey, indexScore: '0' };
  const indexKey = cancellationIndexKey(from.opts.prefix ?? '', recipientId, cancellationKey);
  const indexScore = (await connection.zscore(indexKey, id)) ?? '0';
  return { id, recipientId, isIdTaken, taken, indexKey, cancellationKey, indexScore };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function putArgs(
  to: Queue,
  notifications: Queue,
  fence: number,
  jobs: readonly Described[],
  target: string,
): (string | number)[] {
  const { moved, mover } = moveKeys(target);
  const lists = ['wait', 'prioritized', 'delayed', 'completed', 'active', 'failed', 'pc', 'marker', 'events', 'meta'];
  const args = jobs.flatMap(({ taken, recipientId, cancellationKey, indexScore }) => {
    const [note, id, state, at, fields, keepers] = taken;
    return [
      ...[note, id, state, at],
      indexScore === '0' ? '' : cancellationIndexKey(target, recipientId, cancellationKey),
      ...[indexScore, fields.length, ...fields, keepers.length],
      ...keepers.flatMap(([keeper, ttlMs, kept]) => [keeper, ttlMs, kept.length, ...kept]),
    ];
  });
  const names = [to.name, to.toKey(''), notifications.toKey('')];
  return [...lists.map((name) => to.toKey(name)), moved, mover, fence, ...names, ...args];
}

/** When the newest dead letter was buried; 0 if there is none. Epoch milliseconds. */
async function newestAt(deadQueue: Queue, connection: Connection): Promise<number> {
  const [id] = await connection.lrange(deadQueue.toKey('wait'), 0, 0);
  return id === undefined ? 0 : Number((await connection.hget(deadQueue.toKey(id), 'timestamp')) ?? 0);
}

/** Moves one batch of stories. A story may be written twice without harm, so the steps that jobs need are not needed. */
async function moveStories(source: string, layout: Layout, connection: Connection): Promise<number> {
  const from = historyKeys(source);
  const all = await connection.zrange(from.ends, '0', String(BATCH - 1), 'WITHSCORES');
  const ids = all.filter((_, at) => at % 2 === 0);
  if (ids.length === 0) return 0;
  const texts = await connection.hmget(from.stories, ...ids);
  const stories = ids.flatMap((id, at) => {
    const text = texts[at];
    const recipientId = textOf(valueAt(parseJson(text ?? ''), 'recipientId'));
    return typeof text === 'string' ? [{ id, text, score: all[2 * at + 1] ?? '0', recipientId }] : [];
  });
  const keptMs = await connection.pttl(from.ends);
  for (const [target, some] of Map.groupBy(stories, ({ recipientId }) => homeOf(recipientId, layout))) {
    const to = historyKeys(target);
    const knownMs = await connection.pttl(to.ends);
    // If a replay of the notification has ended in the new queue since, its newer story is kept.
    const known = await connection.hmget(to.stories, ...some.map(({ id }) => id));
    const put = connection.multi();
    for (const [at, { id, text, score }] of some.entries()) {
      if (typeof known[at] !== 'string') put.hset(to.stories, id, text).zadd(to.ends, score, id);
    }
    if (keptMs > knownMs) put.pexpire(to.stories, keptMs).pexpire(to.ends, keptMs);
    for (const [error] of (await put.exec()) ?? []) if (error !== null) throw error; // the stories stay where they are
  }
  await connection
    .multi()
    .hdel(from.stories, ...ids)
    .zrem(from.ends, ...ids)
    .exec();
  return ids.length;
}

async function leftIn({ queue, deadQueue }: ShardQueues, connection: Connection, withFailed: boolean): Promise<Left> {
  const prefix = queue.opts.prefix ?? '';
  const [counts, dead, moving, stories, isPaused] = await Promise.all([
    queue.getJobCounts('wait', 'prioritized', 'delayed', 'completed', 'failed', 'active'),
    deadQueue.getWaitingCount(),
    connection.hlen(moveKeys(prefix).moving),
    connection.zcard(historyKeys(prefix).ends),
    queue.isPaused(),
  ]);
  const { active = 0, failed = 0, ...others } = counts;
  const jobs = Object.values(others).reduce((sum, count) => sum + count, withFailed ? failed : 0);
  return { jobs: jobs + dead + moving, active, stories, isPaused };
}

export interface MoveOptions {
  readonly mover: Mover;
  /** Called after each batch with what is left. */
  readonly onProgress?: (left: Left) => void;
  readonly signal: AbortSignal;
  /**
   * Go on for at least this long, in milliseconds: processes may add to the former queues until they have looked at the layout
   * again.
   */
  readonly leastMs: number;
}

/** Between two batches Redis has at least this long for other commands. */
const PAUSE_MS = 2;
/** While workers have the last jobs in hand, the mover looks again after this time. */
const AGAIN_MS = 200;

/** Moves until nothing is left. Rejects with the signal's reason, or with LeaseLostError: it is safe to go on later. */
export async function moveAll({ mover, onProgress, signal, leastMs }: MoveOptions): Promise<void> {
  const until = performance.now() + leastMs;
  for (;;) {
    signal.throwIfAborted();
    const began = performance.now();
    const count = await mover.moveSome();
    const left = await mover.left();
    onProgress?.(left);
    if (count === 0) {
      const isDone = left.jobs + left.active + left.stories === 0;
      if (isDone && performance.now() >= until) return;
      await pause(AGAIN_MS, signal);
    } else await pause(Math.max(PAUSE_MS, performance.now() - began), signal);
  }
}
