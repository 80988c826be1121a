import { withoutCredentials } from '../domain/redact.ts';
import { isNotNow } from './not-now.ts';
import { addressOf, openConnection, type Connection, type ConnectionOptions, type RedisTarget } from './target.ts';

export type { Connection, RedisTarget } from './target.ts';

/**
 * Redis did not answer, or says that it cannot now (`OOM`, `READONLY`): nothing is known about what was sent just before,
 * and ids make it safe to send again.
 */
export class RedisAwayError extends Error {
  override readonly name = 'RedisAwayError';

  constructor(where: string, cause: unknown) {
    const what = isNotNow(cause) ? 'Redis cannot now' : 'Redis is away';
    super(`${what}: ${where} (${withoutCredentials(reasonOf(cause))})`, { cause: withoutCommand(cause) });
  }
}

/**
 * A connection that answers nothing for this long while something was asked is dead, whatever TCP believes: without it, one
 * whose peer vanished holds its commands for a quarter of an hour. BullMQ's longest block is 10 s, and it breaks that
 * off itself a second later.
 */
const SILENCE_MS = 12_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** How long after Redis has read its data back it may take to be noticed. */
const LOADING_LOOK_MS = 500;

/** A connection that never gives up: commands wait, in order, until Redis is back. The caller closes it. */
export function connectWorker(target: RedisTarget): Connection {
  const connection = openConnection(target, {
    maxRetriesPerRequest: null, // BullMQ insists: a blocking command may wait for longer than any count of retries
    retryStrategy: (times) => Math.min(times * 200, 2_000), // idle workers are back 0.3 s after Redis, not 13 s
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_MS,
    maxLoadingRetryTime: LOADING_LOOK_MS,
    ...(target.cluster !== true && { reconnectOnError }),
  });

  /**
   * A script wrote nothing before it was refused: it is sent again, and on the new master runs for the first time. What is not
   * a script may be a part of a transaction, which is lost as a whole. Nobody else hears of what is sent again: it is told here.
   */
  function reconnectOnError(error: Error): 2 | 1 | false {
    if (!isReadOnly(error)) return false;
    if (connection.listenerCount('error') > 0) connection.emit('error', new Error(error.message));
    return isScript(error) ? 2 : 1;
  }
  return connection;
}

/**
 * A connection for the limiter: what cannot be done now fails now, since what was asked while Redis was away must not be
 * admitted when it is back. No command has a time limit of its own: the limiter has one for each ask.
 */
export function connectLimiter(target: RedisTarget, connectTimeoutMs: number): Connection {
  return openConnection(target, { ...failFast(target, connectTimeoutMs), commandTimeout: undefined });
}

/** The longest that a producer's command may take. */
export const PRODUCER_TIMEOUT_MS = 5_000;

/** A connection for a web request or a script: what cannot be done now fails now. The caller closes it. */
export function connectProducer(target: RedisTarget, timeoutMs: number = PRODUCER_TIMEOUT_MS): Connection {
  return openConnection(target, failFast(target, timeoutMs));
}

function failFast(target: RedisTarget, timeoutMs: number): ConnectionOptions {
  return {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0, // what was under way when the connection broke is told at once, and not at its timeout
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
    socketTimeout: timeoutMs, // the next command should not meet the same silence
    maxLoadingRetryTime: LOADING_LOOK_MS,
    retryStrategy: (times) => Math.min(times * 100, 1_000),
    ...(target.cluster !== true && { reconnectOnError: isReadOnly }),
  };
}

/** Resolves once commands can be sent; rejects with RedisAwayError, never later than `timeoutMs`. */
export async function whenReady(connection: Connection, timeoutMs: number): Promise<void> {
  if (isReady(connection)) return;
  let fail: (error: unknown) => void = () => undefined;
  let succeed: () => void = () => undefined;
  const settled = new Promise<void>((resolve, reject) => {
    succeed = resolve;
    fail = reject;
  });
  const timer = setTimeout(() => {
    fail(new Error(`no answer within ${Math.round(timeoutMs)} ms`));
  }, timeoutMs);
  connection.once('ready', succeed).once('error', fail).once('end', fail);
  try {
    await settled;
  } catch (error) {
    throw new RedisAwayError(addressOf(connection), error);
  } finally {
    clearTimeout(timer);
    connection.off('ready', succeed).off('error', fail).off('end', fail);
  }
}

/** What a failed call is told as: RedisAwayError where the connection was lost, gave no answer or a "not now", else the error itself. */
export function explained(connection: Connection, error: unknown): unknown {
  if (error instanceof RedisAwayError) return error;
  const cause = causeOf(error);
  const isTimeout = cause instanceof Error && cause.message === 'Command timed out';
  const isAway = isTimeout || isNotNow(cause) || !isReady(connection);
  return isAway ? new RedisAwayError(addressOf(connection), cause) : withoutCommand(error);
}

/** Of a transaction that was given up, the refusal of the command that made it so. */
function causeOf(error: unknown): unknown {
  const [first] = (error as { readonly previousErrors?: readonly unknown[] } | undefined)?.previousErrors ?? [];
  return first ?? error;
}

/** The master has become a replica. Redis 6 tells of a script's error inside of another one. */
function isReadOnly(error: Error): boolean {
  return /\bREADONLY\b/.test(error.message);
}

function isScript(error: Error): boolean {
  const { command } = error as { readonly command?: { readonly name: string } };
  return command?.name === 'evalsha' || command?.name === 'eval';
}

function isReady(connection: Connection): boolean {
  return connection.status === 'ready';
}

/** The client hangs the command on its errors, with passwords, tokens and whole notifications: a log would print them. */
function withoutCommand(error: unknown, seen = new Set<unknown>()): unknown {
  if (!(error instanceof Error) || seen.has(error)) return error; // a lost connection fails a whole transaction with one
  seen.add(error);
  Reflect.deleteProperty(error, 'command');
  for (const earlier of (error as { readonly previousErrors?: unknown[] }).previousErrors ?? []) {
    withoutCommand(earlier, seen);
  }
  return error;
}

function reasonOf(cause: unknown): string {
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join(', ');
  if (!(cause instanceof Error) || cause.name === 'MaxRetriesPerRequestError') return 'the connection was closed';
  return cause.message;
}
