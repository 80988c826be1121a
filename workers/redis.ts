import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Cluster, type Redis } from 'ioredis';
import type { Config } from '../src/config/config.ts';
import { within } from '../src/domain/time.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import { DEAD_LETTERS, QUEUE } from '../src/queue/names.ts';
import {
  connectLimiter,
  connectWorker,
  isLasting,
  RedisAwayError,
  whenReady,
  type Connection,
  type RedisTrouble,
} from '../src/redis/connection.ts';
import { isNotNow } from '../src/redis/deadline.ts';
import { watchOutages } from '../src/redis/outages.ts';
import { addressOf } from '../src/redis/target.ts';

/** How long the limiter and the quotas wait for an answer of Redis before the job is put back. */
export const LIMITER_TIMEOUT_MS = 2_000;
/** The same trouble is logged at most once in this time: during an outage it may occur many times a second. */
export const TROUBLE_EVERY_MS = 5_000;
const RETRY_MS = 500;
/** How long one try to connect takes: long enough to look at the port if the error does not say what is wrong. */
const TRY_MS = 1_500;

export interface Connections {
  /** For the queue, the breakers' listeners and the dead letters: commands wait until Redis answers again. */
  readonly queue: Connection;
  /** For the limiter, the quotas and the breakers: a command that cannot be sent now fails now. */
  readonly limiter: Connection;
}

export interface ConnectOptions {
  /** Fires when the start is no longer wanted. */
  readonly signal: AbortSignal;
  /** How long the connection is tried again: Redis may start after its workers. */
  readonly timeoutMs: number;
}

/**
 * Opens the connections of a worker, and logs when one is lost and when it is back. `closing` closes them.
 *
 * @throws RedisAwayError with the last reason, if Redis could not be reached in time; at once if waiting does not help, such as
 * with a wrong password
 */
export async function connect(
  config: Pick<Config, 'redis' | 'limiterRedis'>,
  log: Logger,
  { signal, timeoutMs }: ConnectOptions,
  closing: AsyncDisposableStack,
): Promise<Connections> {
  const queue = connectWorker(config.redis);
  const limiter = connectLimiter(config.limiterRedis, LIMITER_TIMEOUT_MS);
  const both = [queue, limiter];
  const starting = { isOver: false };
  logLosses(both, log, starting);
  for (const connection of both) closing.defer(() => connection.disconnect());
  await Promise.all(both.map((connection) => untilReady(connection, timeoutMs, signal)));
  starting.isOver = true;
  return { queue, limiter };
}

/** Logs one line for each trouble, and one when all lost connections are back. */
function logLosses(connections: readonly Connection[], log: Logger, starting: { readonly isOver: boolean }): void {
  watchOutages(connections, {
    sparing: createSparing(TROUBLE_EVERY_MS),
    lost({ redis, trouble, reason, message, repeats }) {
      if (!isLasting(trouble)) log.warn({ redis, reason, repeats }, LOST[trouble]);
      else if (starting.isOver) log.error({ redis, reason: message, repeats }, LOST[trouble]);
      else return false; // the start ends with this error
      return true;
    },
    back: (found) => log.info(found, 'connected to Redis again: what waits there goes on'),
  });
}

const NO_CONNECTION = 'no connection to Redis: jobs wait, and it is tried again until Redis answers';

const LOST: Readonly<Record<RedisTrouble, string>> = {
  away: NO_CONNECTION,
  'not-now': NO_CONNECTION,
  credentials:
    'Redis refuses the credentials: jobs wait, and it is tried again; set the old password in Redis again, or restart the ' +
    'worker with the new one',
  permission:
    'Redis forbids the user a command: jobs wait, and it is tried again; give the user the right (docs/redis.md)',
  'not-redis':
    'another server answers in the place of Redis: jobs wait, and it is tried again; look at what listens at this address',
  tls: 'no TLS with Redis as configured: jobs wait, and it is tried again; look at the certificate, and at redis:// or rediss://',
};

/**
 * As `whenReady`, but a connection that failed is tried again. The client of a cluster asks one node whether the cluster is
 * whole, and waits for the answer without a limit, for example while that node loads its data. So if two tries find the client
 * in that state, it connects again, and asks any node.
 */
async function untilReady(connection: Connection, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  let lastError: Error | undefined;
  let wasAsking = false;
  const keepLast = (error: Error): void => {
    lastError = error;
  };
  const nodes = new Map<string, Redis>();
  const keepNode = (node: Redis): void => void nodes.set(`${node.options.host}:${node.options.port}`, node);
  connection.on('error', keepLast).on('+node', keepNode);
  try {
    for (;;) {
      signal.throwIfAborted();
      try {
        await whenReady(connection, TRY_MS);
        return;
      } catch (error) {
        if (error instanceof RedisAwayError && isLasting(error.trouble)) throw error;
        const refusal = await refusalOf(nodes.values());
        if (lastError === undefined) connection.emit('error', refusal ?? (error as Error).cause ?? error); // only here is it reported
        // "No answer within 1500 ms" does not say why, but the last error of the connection does.
        if (performance.now() > deadline) throw new RedisAwayError(addressOf(connection), refusal ?? lastError);
        const isAsking = connection instanceof Cluster && connection.status === 'connect';
        if (isAsking && wasAsking) connection.disconnect(true);
        wasAsking = isAsking;
        await sleep(RETRY_MS);
      }
    }
  } finally {
    connection.off('error', keepLast).off('+node', keepNode);
  }
}

/** Why a node of a cluster cannot work now, in its own words, such as LOADING. Undefined if no node says so in time. */
async function refusalOf(nodes: Iterable<Redis>): Promise<Error | undefined> {
  const asked = Array.from(nodes, async (node) => {
    const own = node.duplicate({ enableReadyCheck: false, enableOfflineQueue: true, retryStrategy: null });
    own.on('error', () => undefined); // the command that failed reports it
    try {
      await within(own.ping(), TRY_MS);
    } catch (error) {
      if (isNotNow(error)) return error as Error;
    } finally {
      own.disconnect();
    }
    return undefined;
  });
  return (await Promise.all(asked)).find((error) => error !== undefined);
}

export interface ShardQueues {
  readonly prefix: string;
  readonly queue: Queue;
  readonly deadQueue: Queue;
}

/** Opens the queues under each prefix. `closing` closes them. */
export function openQueues(
  connection: Connection,
  prefixes: readonly string[],
  closing: AsyncDisposableStack,
): ShardQueues[] {
  const open = (name: string, of: string): Queue =>
    new Queue(name, { connection, prefix: of }).on('error', () => undefined); // the worker logs it
  const opened = prefixes.map((of) => {
    return { prefix: of, queue: open(QUEUE, of), deadQueue: open(DEAD_LETTERS, of) };
  });
  closing.defer(async () => {
    const ends = opened.flatMap(({ queue, deadQueue }) => [queue.close(), deadQueue.close()]);
    await within(Promise.all(ends), CLOSE_MS);
  });
  return opened;
}

const CLOSE_MS = 2_000;
