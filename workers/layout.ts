import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../src/config/config.ts';
import { createDeadLetters, type DeadLettersOptions } from '../src/dead-letters/store.ts';
import { repeat, within } from '../src/domain/time.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import {
  consumedPrefixes,
  keepLayout,
  LOOK_EVERY_MS,
  openLayout,
  steadyLayout,
  takeLease,
  type Layout,
  type LayoutLease,
} from '../src/queue/shards/layout.ts';
import { layoutKey } from '../src/queue/names.ts';
import { createMover, LeaseLostError } from '../src/queue/shards/reshard.ts';
import { createShards } from '../src/queue/shards/shards.ts';
import type { Connection } from '../src/redis/connection.ts';
import { insist } from '../src/redis/deadline.ts';
import { TROUBLE_EVERY_MS } from './redis.ts';

/** The layout of the queues, which `reshard` changes while workers run. */

export interface LayoutWatch {
  readonly current: () => Layout;
  stop(): void;
}

interface WatchParts {
  readonly connection: Connection;
  readonly log: Logger;
  readonly onQueuesChanged: (() => void) | undefined;
  /** How long to try again if Redis cannot answer now, for example because a master of a cluster is away. Milliseconds. */
  readonly timeoutMs: number;
  /** Fires when the start is no longer wanted. */
  readonly signal: AbortSignal;
  /** How often the layout is read, in milliseconds. Default: 5,000. */
  readonly everyMs?: number;
}

/** Reads the layout now, and checks every 5 s whether it has changed. */
export async function watchLayout(
  { queue }: Pick<Config, 'queue'>,
  { connection, log, onQueuesChanged, timeoutMs, signal, everyMs = LOOK_EVERY_MS }: WatchParts,
): Promise<LayoutWatch> {
  let layout = await insist(() => openLayout(connection, queue), timeoutMs, signal);
  const { version, prefixes } = layout;
  if (prefixes.length !== queue.shards) {
    const facts = { QUEUE_SHARDS: queue.shards, shards: prefixes.length, version };
    log.warn(facts, version === 0 ? NOT_NEW : OTHER_NUMBER);
  }
  const sparing = createSparing(ABANDONED_EVERY_MS);
  let looksWithoutCommand = 0;
  let isStopped = false;

  async function look(): Promise<void> {
    const next = await keepLayout(connection, queue, layout);
    if (isStopped) return;
    if (next.version === layout.version) {
      await lookForCommand();
      return;
    }
    const areSame = isDeepStrictEqual(consumedPrefixes(next).toSorted(), consumedPrefixes(layout).toSorted());
    if (!areSame && onQueuesChanged !== undefined) {
      stop();
      onQueuesChanged();
      return;
    }
    layout = next;
    log.info({ version: next.version, phase: next.phase, shards: next.prefixes.length }, FOLLOWED);
  }

  /**
   * Warns of a reshard whose command was killed when it had only prepared. No worker ends such a reshard, since an operator may
   * also give it up. Two looks must find it, because the command may have just started.
   */
  async function lookForCommand(): Promise<void> {
    const { phase, next } = layout;
    const isAlone = phase === 'prepare' && (await connection.exists(`${layoutKey(queue.prefix)}:lease`)) === 0;
    looksWithoutCommand = isAlone ? looksWithoutCommand + 1 : 0;
    if (looksWithoutCommand < 2 || sparing(ABANDONED) === undefined) return;
    log.warn({ from: layout.prefixes.length, to: next?.length }, ABANDONED);
  }

  const looks = repeat(look, everyMs);
  const stop = (): void => {
    isStopped = true;
    void looks.stop();
  };
  return { current: () => layout, stop };
}

/**
 * How many jobs of this queue a worker may have at once: the WORKER_CONCURRENCY places are shared among the queues of one
 * layout. During a reshard the queues of two layouts are consumed, and in `prepare` all jobs are in the queues of the first
 * layout. So each layout gets all places: a worker may then have up to twice as many jobs.
 */
export function placesIn(prefix: string, { prefixes, next = [], former }: Layout, concurrency: number): number {
  const layouts = [prefixes, next, former[0] ?? []].filter((each) => each.includes(prefix));
  const queues = Math.min(...layouts.map(({ length }) => length));
  return Math.max(1, Math.ceil(concurrency / queues));
}

const OTHER_NUMBER =
  'QUEUE_SHARDS is not the number of shards that the queue has: the record in Redis holds, and is followed; set QUEUE_SHARDS to ' +
  'that number, or change the number: pushpacer reshard --to <number>';
const NOT_NEW =
  'QUEUE_SHARDS is only for a new queue, and there is one with 1 shard: it is used; change the number: pushpacer reshard --to <number>';
const ABANDONED =
  'a reshard is prepared, and no command goes on with it: notifications are still added to the former queues, and workers take those ' +
  'of both; go on: pushpacer reshard --to <to>; or give it up: pushpacer reshard --to <from>';
/** How often each worker logs this warning. */
const ABANDONED_EVERY_MS = 600_000;
const FOLLOWED = 'the record of the queues has changed, and is followed';

/** The former queues are looked into this often, each time by only one of the workers. */
const SWEEP_EVERY_MS = 10_000;
/** A lease that is not renewed ends after this. */
const LEASE_MS = 10_000;
/** After this time a sweep gives up its lease for a moment, so that a `reshard` command that waits for the lease can go on. */
const SHARE_MS = 2_000;
const YIELD_MS = 1_000;
const STOP_MS = 2_000;
/** The pause between two batches, so that Redis can do other work. */
const PAUSE_MS = 5;

interface SweepParts extends Pick<DeadLettersOptions, 'giveBack' | 'onDiedUnseen'> {
  readonly connection: Connection;
  readonly layout: () => Layout;
  readonly log: Logger;
}

/**
 * Moves jobs that appear in former queues: a producer may still use the former number of shards, or a worker was killed while
 * it had the last jobs of a former queue. Also ends a reshard whose command was killed while it moved jobs. Without former
 * queues it sends nothing.
 */
export function sweepFormer(
  { queue: names, outcomesMax }: Pick<Config, 'queue' | 'outcomesMax'>,
  { connection, layout, log, ...died }: SweepParts,
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const isStopped = (): boolean => signal.aborted;
  const shards = createShards(connection, names);
  const sparing = createSparing(TROUBLE_EVERY_MS);
  const pause = (ms: number): Promise<unknown> => sleep(ms, undefined, { signal }).catch(() => undefined);

  async function sweep(): Promise<void> {
    if (layout().former.length === 0) return;
    const looks = `${layoutKey(names.prefix)}:look`;
    if ((await connection.set(looks, '1', 'PX', SWEEP_EVERY_MS * 0.9, 'NX')) === null) return;
    let isMore = true;
    while (isMore && !isStopped()) {
      const lease = await takeLease(connection, names.prefix, LEASE_MS);
      if (lease === undefined) return; // the `reshard` command moves them
      const renewing = setInterval(() => void lease.renew().catch(() => undefined), LEASE_MS / 4).unref();
      try {
        isMore = await sweepWith(lease);
      } finally {
        clearInterval(renewing);
        await lease.release().catch(() => undefined);
      }
      if (isMore) await pause(YIELD_MS);
    }
  }

  /** Moves jobs for a while. Answers whether there are more. */
  async function sweepWith(lease: LayoutLease): Promise<boolean> {
    const known = await openLayout(connection, names);
    const mover = createMover({
      ...{ connection, layout: known, lease },
      open: (of) => shards.at(of),
      bury: (shard) => createDeadLetters({ ...shard, ...died, outcomesMax }).sweep(),
    });
    const until = performance.now() + SHARE_MS;
    let isMore = true;
    while (isMore && !isStopped() && performance.now() < until) {
      isMore = (await mover.moveSome()) > 0;
      if (isMore) await sleep(PAUSE_MS);
    }
    const { moved, dropped } = mover.counts;
    if (moved + dropped > 0) {
      const repeats = sparing(known.phase);
      if (repeats !== undefined)
        log.warn({ moved, dropped, phase: known.phase, repeats }, known.phase === 'move' ? WENT_ON : STILL_USED);
    }
    if (isMore || known.phase !== 'move') return isMore;
    const { jobs, active, stories } = await mover.left();
    if (jobs + active + stories > 0) return false;
    await mover.tidy();
    if (await lease.write(steadyLayout(known))) log.info({ shards: known.prefixes.length }, 'the reshard is done');
    return false;
  }

  async function run(): Promise<void> {
    while (!isStopped()) {
      await pause(SWEEP_EVERY_MS * (0.9 + Math.random() / 5));
      if (isStopped()) return;
      await sweep().catch((error: unknown) => {
        if (error instanceof LeaseLostError || isStopped()) return;
        const repeats = sparing(error instanceof Error ? error.message : String(error));
        if (repeats !== undefined)
          log.warn({ err: error, repeats }, 'former queues could not be looked at; tried again in 10 s');
      });
    }
  }

  const running = run();
  return {
    async stop() {
      stopping.abort();
      await within(running, STOP_MS);
      await within(shards.close(), STOP_MS);
    },
  };
}

const STILL_USED =
  'notifications of former queues were moved to those of their recipients: a producer still uses the former number of shards, so give ' +
  'it the present one (docs/shards.md); or a worker was killed that had them in hand when the number changed';
const WENT_ON = 'the command reshard has ended before all was moved: what it left was moved';
