import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import type { Config } from '../src/config/config.ts';
import type { CancelTarget, Notification } from '../src/domain/notification.ts';
import { countedAs } from '../src/domain/limits.ts';
import { errorChain } from '../src/domain/redact.ts';
import { forEachKind } from '../src/limiter/limiter.ts';
import { createCanceledLook, createCanceller } from '../src/limiter/redis/canceller.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import { cancelWaiting, type Canceled } from '../src/queue/cancel.ts';
import { QUEUE, shardPrefixes } from '../src/queue/names.ts';
import { createOutcomes, type Outcomes, type OutcomesOptions } from '../src/queue/outcomes.ts';
import {
  connectLimiter,
  connectWorker,
  explainedLoss,
  isLasting,
  RedisAwayError,
  whenReady,
  type Connection,
  type RedisTrouble,
} from '../src/redis/connection.ts';
import { addressOf } from '../src/redis/target.ts';

/** How long the limiter and the quotas wait for an answer of Redis before the job is put back. */
export const LIMITER_TIMEOUT_MS = 2_000;
/** How often the same trouble is logged: a Redis that is away or full makes it many times a second. */
export const TROUBLE_EVERY_MS = 5_000;
const RETRY_MS = 500;
/** One try to connect: long enough for a look at the port, where the error does not say what is wrong. */
const TRY_MS = 1_500;

export interface Connections {
  /** For the queue, the breakers' listeners and the dead letters: commands wait until Redis is back. */
  readonly queue: Connection;
  /** For the limiter, the quotas and the breakers: a command that cannot be done now fails now. */
  readonly limiter: Connection;
}

export interface ConnectOptions {
  /** Fires when the start is no longer wanted. */
  readonly signal: AbortSignal;
  /** Redis may come up after its workers: so long it is tried again. */
  readonly timeoutMs: number;
}

/**
 * Opens the connections of a replica, and logs when one is lost and when it is back. `closing` closes them.
 *
 * @throws RedisAwayError with the last reason, where Redis could not be reached in time; at once where waiting does not help, such
 * as with a wrong password
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

/** One line for each trouble, and one when all connections that were lost are back. */
function logLosses(connections: readonly Connection[], log: Logger, starting: { readonly isOver: boolean }): void {
  const sparing = createSparing(TROUBLE_EVERY_MS);
  const lost = new Set<Connection>();
  let isLogged = false;
  let lostAt = 0;
  for (const connection of connections) {
    connection.on('error', (error: Error) => {
      const reason = errorChain(error);
      const repeats = sparing(reason);
      if (repeats === undefined) return;
      const redis = addressOf(connection);
      void explainedLoss(connection, error).then(({ trouble, message }) => {
        if (!isLasting(trouble)) log.warn({ redis, reason, repeats }, LOST[trouble]);
        else if (starting.isOver) log.error({ redis, reason: message, repeats }, LOST[trouble]);
        else return; // the start ends with this error
        isLogged = true;
      });
    });
    connection.on('close', () => {
      if (lost.size === 0) lostAt = performance.now();
      lost.add(connection);
    });
    connection.on('ready', () => {
      if (!lost.delete(connection) || lost.size > 0 || !isLogged) return;
      isLogged = false;
      const awayMs = Math.round(performance.now() - lostAt);
      log.info({ redis: addressOf(connection), awayMs }, 'connected to Redis again: the jobs that waited go on');
    });
  }
}

const NO_CONNECTION = 'no connection to Redis: jobs wait, and it is tried again until Redis answers';

const LOST: Readonly<Record<RedisTrouble, string>> = {
  away: NO_CONNECTION,
  'not-now': NO_CONNECTION,
  credentials:
    'Redis refuses the credentials: jobs wait, and it is tried again; set the old password in Redis again, or restart the ' +
    'worker with the new one',
  'not-redis':
    'another server answers in the place of Redis: jobs wait, and it is tried again; look at what listens at this address',
  tls: 'no TLS with Redis as configured: jobs wait, and it is tried again; look at the certificate, and at redis:// or rediss://',
};

/** As `whenReady`, but a connection that failed is tried again. */
async function untilReady(connection: Connection, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  let lastError: Error | undefined;
  const keepLast = (error: Error): void => {
    lastError = error;
  };
  connection.on('error', keepLast);
  try {
    for (;;) {
      signal.throwIfAborted();
      try {
        await whenReady(connection, TRY_MS);
        return;
      } catch (error) {
        if (error instanceof RedisAwayError && isLasting(error.trouble)) throw error;
        // "No answer within 1500 ms" does not say why: the last error of the connection does.
        if (performance.now() > deadline)
          throw lastError === undefined ? error : new RedisAwayError(addressOf(connection), lastError);
        await sleep(RETRY_MS);
      }
    }
  } finally {
    connection.off('error', keepLast);
  }
}

/** Cancels what waits (`cancel`, for jobs of this name), and looks whether a notification was canceled. `closing` closes its queues. */
export function createCancelling(
  { queue: redis, limiter: limiterRedis }: Connections,
  { prefix, shards }: Config['queue'],
  closing: AsyncDisposableStack,
) {
  const limiter = { redis: limiterRedis, timeoutMs: LIMITER_TIMEOUT_MS };
  const deciders = forEachKind(prefix, (of) => createCanceller({ ...limiter, prefix: of }));
  const looks = forEachKind(prefix, (of) => createCanceledLook({ ...limiter, prefix: of }));
  const queues = shardPrefixes(prefix, shards).map((shardPrefix) => {
    const queue = new Queue(QUEUE, { connection: redis, prefix: shardPrefix, skipMetasUpdate: true });
    queue.on('error', () => undefined); // the worker logs it
    closing.defer(() => queue.close());
    return queue;
  });
  return {
    cancel: (target: CancelTarget): Promise<Canceled> => cancelWaiting(target, { connection: redis, queues, deciders }),
    isCanceled: ({ notification, jobId }: { readonly notification: Notification; readonly jobId: string }) =>
      looks[countedAs(notification)](notification.recipientId, jobId),
  };
}

/** The stream of outcomes of this replica, with a log of what is lost; undefined where there is none. */
export function startOutcomes(
  { outcomesMax: max, queue, lockMs }: Pick<Config, 'outcomesMax' | 'queue' | 'lockMs'>,
  { redis, log }: Pick<OutcomesOptions, 'redis'> & { readonly log: Logger },
): Outcomes | undefined {
  if (max === 0) return undefined;
  const sparing = createSparing(TROUBLE_EVERY_MS);
  return createOutcomes({
    redis,
    ...queue,
    max,
    insistMs: lockMs,
    onLost: ({ id, outcome }, error) => {
      const repeats = sparing(error instanceof Error ? error.message : String(error));
      if (repeats !== undefined) log.error({ id, outcome, err: error, repeats }, OUTCOMES_LOST);
    },
  });
}

const OUTCOMES_LOST =
  'Redis did not take an outcome for the stream of outcomes; its consumers do not see it, and the notification is ended all the same';
