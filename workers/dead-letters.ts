import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import type { Registry } from 'prom-client';
import type { Config } from '../src/config/config.ts';
import { createDeadLetterMetrics, type DeadLetterFigures } from '../src/observe/metrics.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Connection } from '../src/redis/connection.ts';
import { createDeadLetters } from '../src/dead-letters/store.ts';
import { createKeeper, type KeeperRedis, diedAt, type Shard } from '../src/dead-letters/keeper.ts';
import { DEAD_LETTERS, QUEUE, shardPrefixes } from '../src/queue/names.ts';
import { tellRemoval, warnOfRemoval } from './dead-letter-words.ts';
import { within } from '../src/domain/time.ts';

export interface DeadLetterKeeperParts {
  readonly connection: Connection;
  readonly queue: Config['queue'];
  readonly bounds: Config['deadLetters'];
  readonly registry: Registry;
  readonly log: Logger;
}

/** How often one of all the workers looks; more often where dead letters are kept for minutes only. */
const LOOK_EVERY_MS = 30_000;
const LEAST_LOOK_EVERY_MS = 500;
/** A page does not wait longer for Redis. */
const ANSWER_TIMEOUT_MS = 1_000;
/** How long a look may take to end when the worker stops. */
const STOP_MS = 2_000;

/** Counts the dead letters for the metrics, and removes those beyond their bounds, until it is stopped. */
export function keepDeadLetters({ connection, queue, bounds, registry, log }: DeadLetterKeeperParts): {
  stop(): Promise<void>;
} {
  const queues = shardPrefixes(queue.prefix, queue.shards).map((prefix) => openShard(connection, prefix));
  const shards = queues.map(createDeadLetters);
  const metrics = createDeadLetterMetrics(registry, () => figuresOf(shards));
  const everyMs = lookEveryMs(bounds);
  const redis = connection as unknown as KeeperRedis; // ioredis overloads SET with a form that TypeScript does not pick
  const keeper = createKeeper({ deadLetters: shards, redis, prefix: queue.prefix, ...bounds, everyMs });
  const stopping = new AbortController();

  async function look(): Promise<void> {
    const found = await keeper.look(stopping.signal);
    for (const warning of found?.warnings ?? []) warnOfRemoval(warning, bounds, log);
    for (const removal of found?.removals ?? []) {
      metrics.removed(removal.bound, tellRemoval(removal, bounds, log));
    }
  }

  /** Without Redis a look waits, or fails. The first look that fails is logged, and then the first that does not. */
  async function run({ signal }: AbortController): Promise<void> {
    let isFailing = false;
    while (!signal.aborted) {
      try {
        await look();
        if (isFailing) log.info('the dead letters could be looked at again: those beyond their bounds are removed');
        isFailing = false;
      } catch (error) {
        if (!isFailing && !isStopped(signal)) log.warn({ err: error }, LOOK_FAILED);
        isFailing = true;
      }
      await sleep(everyMs * (0.9 + Math.random() / 5), undefined, { signal }).catch(() => undefined);
    }
  }

  const isBounded = bounds.maxAgeMs > 0 || bounds.maxCount > 0;
  const running = isBounded ? run(stopping) : Promise.resolve();
  return {
    stop: async () => {
      stopping.abort();
      await within(running, STOP_MS);
      const closing = queues.flatMap(({ queue, deadQueue }) => [queue.close(), deadQueue.close()]);
      await within(Promise.all(closing), STOP_MS);
    },
  };
}

const LOOK_FAILED =
  'the dead letters could not be looked at: none is removed until Redis answers; tried again at the next look';

/** A look may fail because the worker stops and closes the connection: that is not logged. */
function isStopped({ aborted }: AbortSignal): boolean {
  return aborted;
}

function openShard(connection: Connection, prefix: string): { queue: Queue; deadQueue: Queue } {
  const open = (name: string): Queue =>
    new Queue(name, { connection, prefix, skipMetasUpdate: true }).on('error', () => undefined); // the worker logs it
  return { queue: open(QUEUE), deadQueue: open(DEAD_LETTERS) };
}

function lookEveryMs({ maxAgeMs }: Config['deadLetters']): number {
  return maxAgeMs === 0 ? LOOK_EVERY_MS : Math.max(LEAST_LOOK_EVERY_MS, Math.min(LOOK_EVERY_MS, maxAgeMs / 10));
}

/** Over all shards; undefined where Redis does not answer in time. */
async function figuresOf(shards: readonly Shard[]): Promise<DeadLetterFigures | undefined> {
  let figures: DeadLetterFigures | undefined;
  const looking = Promise.all(
    shards.map(async (shard) => ({ count: await shard.count(), head: await shard.page(0, 1) })),
  ).then((found) => {
    const deaths = found.flatMap(({ head }) => head.map(diedAt));
    figures = {
      count: found.reduce((sum, { count }) => sum + count, 0),
      oldestAgeMs: deaths.length === 0 ? 0 : Math.max(0, Date.now() - Math.min(...deaths)),
    };
  });
  await within(looking, ANSWER_TIMEOUT_MS).catch(() => undefined);
  return figures;
}
