import { hasOwnLimiter, type ApiConfig } from '../src/config/config.ts';
import { createDeadLetters } from '../src/dead-letters/store.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import { createAudit, type Audit } from '../src/operations/audit.ts';
import { keptAbout } from '../src/operations/catalogue.ts';
import type { Kept } from '../src/operations/operation.ts';
import type { PreviewParts } from '../src/operations/preview.ts';
import { lookAtRecipient, type LookParts, type RecipientLook } from '../src/operations/recipient.ts';
import type { OperationParts } from '../src/operations/run.ts';
import { readStatus, type StatusResult } from '../src/operations/status.ts';
import { tellStory, type Told } from '../src/operations/story.ts';
import { openTakeRuns, type TakeRuns } from '../src/operations/take-runs.ts';
import { homesOf } from '../src/queue/shards/layout.ts';
import { createProducer, type Producer } from '../src/producer/producer.ts';
import { createShards, type Shards } from '../src/queue/shards/shards.ts';
import { readWorkers, sharedPolicy, type WorkerPolicy } from '../src/queue/workers.ts';
import { connectProducer, explained, isLasting, readClock, type Connection } from '../src/redis/connection.ts';
import { watchOutages } from '../src/redis/outages.ts';
import { createLimiters, type OpenLimiters } from './limiters.ts';

/** Everything about one recipient, with the limits in force, and with what operations keep about it. */
export interface RecipientSeen extends RecipientLook, Pick<OpenLimiters, 'categories' | 'limitsOf'> {
  readonly kept: readonly Kept[];
}

/** What operators work with in the terminal, over HTTP and in the console. */
export interface Backend {
  /** QUEUE_PREFIX. */
  readonly prefix: string;
  readonly connection: Connection;
  readonly limiterConnection: Connection;
  readonly producer: Producer;
  readonly shards: Shards;
  /** The limits of this process's environment, used if no worker is alive. */
  readonly own: WorkerPolicy;
  /** The limiters, which have the limits of the living workers. */
  readonly limiters: () => Promise<OpenLimiters>;
  readonly audit: Audit;
  readonly status: (signal?: AbortSignal) => Promise<StatusResult>;
  /** Replays and discards of dead letters. */
  readonly takes: TakeRuns;
  /** Reads everything about a recipient. Writes nothing. */
  readonly look: (
    recipientId: string,
    bounds: Pick<LookParts, 'most' | 'mostLookedAt' | 'signal'>,
  ) => Promise<RecipientSeen>;
  /** What operations on this recipient need. */
  readonly operating: (recipientId: string) => Promise<OperationParts & Pick<PreviewParts, 'foresights'>>;
  /** What became of a notification, and why. Rejects with InputError for an id that no notification can have. */
  readonly tell: (id: string) => Promise<Told>;
  /** An error of Redis's client as RedisAwayError; any other error stays as it is. */
  readonly explain: (error: unknown) => unknown;
  /** Resolves when Redis has answered for the first time. Never rejects. */
  readonly reached: Promise<void>;
  readonly close: () => Promise<void>;
}

type Log = Pick<Logger, 'info' | 'warn' | 'error'>;

/**
 * Connects, and logs when a connection is lost and when it is back. Redis may start later: calls that need it wait for a while,
 * and then reject. `name`: the name of the program, for the log.
 */
export function openBackend(
  config: Pick<ApiConfig, 'redis' | 'limiterRedis' | 'queue' | keyof WorkerPolicy>,
  name: string,
  log: Log,
): Backend {
  const { redis, limiterRedis, queue, policy, categories, quietHours, apartRules } = config;
  const connection = connectProducer(redis);
  const isOwn = hasOwnLimiter(config);
  const limiterConnection = isOwn ? connectProducer(limiterRedis) : connection;
  const connections = [...new Set([connection, limiterConnection])];
  let isClosed = false;
  logOutages(connections, name, log, () => isClosed);
  const limiter = { limiterRedisUrl: limiterRedis.redisUrl, limiterSentinelName: limiterRedis.sentinel?.name };
  const producer = createProducer({ connection, ...queue, ...(isOwn && limiter) });
  const shards = createShards(connection, queue);
  const own: WorkerPolicy = { policy, categories, ...(quietHours && { quietHours }), apartRules };
  const limiters = createLimiters({ redis: connection, limiterRedis: limiterConnection, prefix: queue.prefix, own });
  const audit = createAudit(connection, queue.prefix);
  const explain = (error: unknown) => explained(connection, error);
  const takes = openTakeRuns({
    ...{ audit, log, explain },
    async open() {
      const letters = (await shards.open()).map((open) => createDeadLetters(open));
      return { shards: letters, now: await readClock(connection) };
    },
    policy: async () => sharedPolicy(await readWorkers(connection, queue.prefix))?.policy.policy ?? own.policy,
  });
  return {
    ...{ connection, limiterConnection, producer, shards, own, limiters, audit, takes, explain },
    prefix: queue.prefix,
    async status(signal) {
      return readStatus(await shards.open(), connection, queue.prefix, await shards.layout(), signal);
    },
    async look(recipientId, bounds) {
      const [{ limiters: all, categories, limitsOf }, homes] = await Promise.all([
        limiters(),
        shards.homes(recipientId),
      ]);
      const parts = { limiters: all, queues: homes.map((shard) => shard.queue), connection };
      const [look, kept] = await Promise.all([
        lookAtRecipient(recipientId, { ...parts, ...bounds }),
        keptAbout(recipientId, { connection, prefix: queue.prefix }),
      ]);
      return { ...look, categories, limitsOf, kept };
    },
    async operating(recipientId) {
      const [{ limiters: all, foresights, policy: general }, homes] = await Promise.all([
        limiters(),
        shards.homes(recipientId),
      ]);
      return {
        ...{ limiters: all, foresights, policy: general, queues: homes.map((shard) => shard.queue), audit },
        store: { connection, prefix: queue.prefix },
        async canceling() {
          const [layout, open] = await Promise.all([shards.layout(), shards.open()]);
          const queues = open.map((shard) => shard.queue);
          return {
            find: { connection, queues, homes: (id) => homesOf(id, layout) },
            cancel: (target) => producer.cancel(target),
          };
        },
      };
    },
    tell: (id) =>
      tellStory(id, {
        ...{ connection, limiterConnection, prefix: queue.prefix, own },
        shards: () => shards.open(),
        homes: (recipientId) => shards.homes(recipientId),
        status: (of) => producer.status(of),
      }),
    reached: untilReached(connections),
    async close() {
      isClosed = true;
      await takes.close();
      await producer.close();
      await shards.close();
      for (const each of connections) each.disconnect();
    },
  };
}

/** The same trouble is logged at most once in this time. */
const TROUBLE_EVERY_MS = 5_000;

/** @param isClosed whether the program has closed the connections: one that was just being opened then reports an error */
function logOutages(connections: readonly Connection[], name: string, log: Log, isClosed: () => boolean): void {
  watchOutages(connections, {
    sparing: createSparing(TROUBLE_EVERY_MS),
    lost({ redis, trouble, reason, message, repeats }) {
      if (isClosed()) return false;
      if (isLasting(trouble))
        log.error({ redis, reason: message, repeats }, `the ${name} cannot use Redis: ${MEANWHILE}`);
      else log.warn({ redis, reason, repeats }, `the ${name} has no connection to Redis: ${MEANWHILE}`);
      return true;
    },
    back: (found) => log.info(found, `the ${name} is connected to Redis again`),
  });
}

const MEANWHILE = 'what needs it is refused (503), and it is tried again until Redis answers';

async function untilReached(connections: readonly Connection[]): Promise<void> {
  const waiting = connections.filter(({ status }) => status !== 'ready');
  await Promise.all(waiting.map((each) => new Promise((resolve) => each.once('ready', resolve))));
}
