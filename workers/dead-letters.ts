import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'bullmq';
import type { Registry } from 'prom-client';
import type { Config } from '../src/config/config.ts';
import { createKeeper, type KeeperRedis, diedAt, type Removal, type Warning } from '../src/dead-letters/keeper.ts';
import { lookAtNewest, type Look } from '../src/dead-letters/look.ts';
import { createDeadLetters, type DeadLetters } from '../src/dead-letters/store.ts';
import { formatDuration, seldom, within } from '../src/domain/time.ts';
import type { Logger } from '../src/observe/log.ts';
import { createDeadLetterMetrics, type DeadLetterFigures } from '../src/observe/shared-metrics.ts';
import type { Connection } from '../src/redis/connection.ts';
import { deadLetters } from '../src/terminal/text.ts';
import type { ShardQueues } from './redis.ts';

/** One worker of all looks at the dead letters this often; more often if dead letters are kept for minutes only. */
const LOOK_EVERY_MS = 30_000;
const LEAST_LOOK_EVERY_MS = 500;
/** A page waits at most this long for Redis. */
const ANSWER_TIMEOUT_MS = 1_000;
/** The metrics count dead letters at most this often, and look at this many of them: a thousand take Redis 15 ms. */
const COUNT_EVERY_MS = 5_000;
const MOST_COUNTED = 1_000;
/** How long a look may take to end when the worker stops. */
const STOP_MS = 2_000;

interface KeepParts {
  readonly connection: Connection;
  readonly queues: readonly ShardQueues[];
  readonly registry: Registry;
  readonly log: Logger;
}

/** Counts the dead letters for the metrics, and removes dead letters beyond the bounds, until it is stopped. */
export function keepDeadLetters(
  { queue, deadLetters: bounds }: Pick<Config, 'queue' | 'deadLetters'>,
  { connection, queues, registry, log }: KeepParts,
): { stop(): Promise<void> } {
  const shards = queues.map(createDeadLetters);
  const figures = seldom(COUNT_EVERY_MS, createFigures(shards));
  const countRemoved = createDeadLetterMetrics(registry, () =>
    within(figures(), ANSWER_TIMEOUT_MS).catch(() => undefined),
  );
  const { maxAgeMs, maxCount } = bounds;
  const everyMs =
    maxAgeMs === 0 ? LOOK_EVERY_MS : Math.max(LEAST_LOOK_EVERY_MS, Math.min(LOOK_EVERY_MS, maxAgeMs / 10));
  const redis = connection as unknown as KeeperRedis; // ioredis overloads SET with a form that TypeScript does not pick
  const keeper = createKeeper({ deadLetters: shards, redis, prefix: queue.prefix, ...bounds, everyMs });
  const stopping = new AbortController();
  const isStopped = (): boolean => stopping.signal.aborted;

  async function look(): Promise<void> {
    const found = await keeper.look(stopping.signal);
    for (const warning of found?.warnings ?? []) warnOfRemoval(warning, bounds, log);
    for (const removal of found?.removals ?? []) countRemoved(removal.bound, logRemoval(removal, bounds, log));
  }

  /** While Redis does not answer, a look waits or fails. The first look that fails is logged, and then the first that succeeds. */
  async function run(): Promise<void> {
    const { signal } = stopping;
    let isFailing = false;
    while (!isStopped()) {
      try {
        await look();
        if (isFailing) log.info('the dead letters could be looked at again: those beyond their bounds are removed');
        isFailing = false;
      } catch (error) {
        if (!isFailing && !isStopped()) log.warn({ err: error }, LOOK_FAILED); // a stop closes the connection, so a look may fail then
        isFailing = true;
      }
      await sleep(everyMs * (0.9 + Math.random() / 5), undefined, { signal }).catch(() => undefined);
    }
  }

  const isBounded = maxAgeMs > 0 || maxCount > 0;
  const running = isBounded ? run() : Promise.resolve();
  return {
    stop: async () => {
      stopping.abort();
      await within(running, STOP_MS);
    },
  };
}

const LOOK_FAILED =
  'the dead letters could not be looked at: none is removed until Redis answers; tried again at the next look';

/** Figures over all shards. The newest dead letters are read only if one came or went since the last call. */
function createFigures(shards: readonly DeadLetters[]): () => Promise<DeadLetterFigures> {
  let last: { readonly ends: string; readonly look: Look } | undefined;
  return async () => {
    const now = Date.now();
    const ends = await Promise.all(shards.map(endsOf));
    const text = JSON.stringify(ends.map(({ count, oldest, newest }) => [count, oldest?.id, newest?.id]));
    if (last?.ends !== text) {
      const options = { filter: {}, offset: 0, limit: 0, most: MOST_COUNTED, now };
      last = { ends: text, look: await lookAtNewest(shards, options) };
    }
    const { reasons, of, lookedAt } = last.look;
    const deaths = ends.flatMap(({ oldest }) => (oldest === undefined ? [] : diedAt(oldest)));
    return {
      byReason: new Map(reasons.map(({ reason, count }) => [reason, count])),
      notLookedAt: of - lookedAt,
      oldestAgeMs: deaths.length === 0 ? 0 : Math.max(0, now - Math.min(...deaths)),
    };
  };
}

async function endsOf(shard: DeadLetters) {
  const count = await shard.count();
  const [[oldest], [newest]] = await Promise.all([shard.page(0, 1), shard.page(Math.max(0, count - 1), 1)]);
  return { count, oldest, newest };
}

/** Logs which dead letters will be removed, with the commands to look at them or to keep them. */
function warnOfRemoval(warning: Warning, { maxAgeMs, maxCount }: Config['deadLetters'], log: Logger): void {
  if (warning.bound === 'age') {
    if (warning.going === 0) return;
    const { going, firstAt, lastAt, diedUntil } = warning;
    // Instants in the form that the commands read: `2026-11-21T14:00:00.000Z`.
    const [first, last, died] = [firstAt, lastAt, diedUntil].map((at) => new Date(at).toISOString());
    const bound = `DEAD_LETTER_MAX_AGE is ${formatDuration(maxAgeMs)}`;
    const commands = `look: npx pushpacer dead-letters --until ${died}, keep: npx pushpacer replay --until ${died}`;
    const text = `${deadLetters(going)} will be removed from ${first} to ${last}, since ${bound}; ${commands}`;
    log.warn({ bound: 'age', deadLetters: going, firstAt: first, lastAt: last }, text);
    return;
  }
  const { count, going } = warning;
  const room = `room is left for ${maxCount - count} more, then the oldest will be removed`;
  const when = going === 0 ? room : `the ${going} oldest will be removed within minutes`;
  const commands = 'look: npx pushpacer dead-letters, keep: npx pushpacer replay --all';
  const bound = `DEAD_LETTER_MAX_COUNT is ${maxCount}`;
  log.warn(
    { bound: 'count', deadLetters: count, going },
    `${deadLetters(count)}: ${when}, since ${bound}; ${commands}`,
  );
}

/** Logs what was removed. Answers how many dead letters were removed. */
function logRemoval(removal: Removal, { maxAgeMs, maxCount }: Config['deadLetters'], log: Logger): number {
  const removed = [...removal.byReason.values()].reduce((sum, count) => sum + count, 0);
  const why =
    removal.bound === 'age'
      ? `older than DEAD_LETTER_MAX_AGE, ${formatDuration(maxAgeMs)}`
      : `the oldest of more than DEAD_LETTER_MAX_COUNT, ${maxCount}`;
  const byReason = Object.fromEntries(removal.byReason);
  log.warn({ bound: removal.bound, removed, byReason }, `removed ${deadLetters(removed)} for good: ${why}`);
  return removed;
}

/** How often the failed jobs are searched for jobs that a worker left there when it died. */
const SWEEP_EVERY_MS = 15_000;

/**
 * Moves each job that fails in this worker to the dead letters. From `start` on, it also moves failed jobs that dead workers
 * left, from time to time.
 */
export function moveFailedJobs(
  worker: Pick<Worker, 'on'>,
  deadLetters: Pick<DeadLetters, 'bury' | 'sweep'>,
  log: Logger,
): { start(): void; stop(): Promise<void> } {
  const underWay = new Set<Promise<unknown>>();
  const track = (work: Promise<unknown>): void => {
    const tracked = work.catch((error: unknown) => {
      log.warn({ err: error }, 'failed jobs could not be moved to the dead letters; tried again within 15 s');
    });
    underWay.add(tracked);
    void tracked.finally(() => underWay.delete(tracked));
  };
  worker.on('failed', (job) => {
    if (job?.id !== undefined) track(deadLetters.bury(job.id));
  });
  const sweep = (): void => track(deadLetters.sweep());
  let sweeping: NodeJS.Timeout | undefined;
  return {
    start() {
      sweep();
      sweeping = setInterval(sweep, SWEEP_EVERY_MS);
    },
    async stop() {
      clearInterval(sweeping);
      await Promise.all(underWay);
    },
  };
}
