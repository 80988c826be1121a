import { withoutCredentials } from '../domain/redact.ts';
import { isNotNow } from './not-now.ts';
import { addressOf, openConnection, type Connection, type ConnectionOptions, type RedisTarget } from './target.ts';

export type { Connection, RedisTarget } from './target.ts';

/**
 * Redis did not answer, or says that it cannot work now (`OOM`, `READONLY`). The last command may or may not have been carried out;
 * since notifications have ids, it is safe to send it again.
 */
export class RedisAwayError extends Error {
  /** To recognise it without the class, such as across two copies of the package. */
  override readonly name = 'RedisAwayError';

  /** `where`: the address, without user and password. */
  constructor(where: string, cause: unknown) {
    const what = isNotNow(cause) ? 'Redis cannot now' : 'Redis is away';
    super(`${what}: ${where} (${withoutCredentials(reasonOf(cause))})`, { cause: withoutCommand(cause) });
  }
}

/**
 * If a connection gives no answer for this long, it is closed. Otherwise, if the server's machine disappears, TCP would keep the
 * commands waiting for a quarter of an hour. It must be longer than BullMQ's longest blocking command, 10 s plus a second.
 */
const SILENCE_MS = 12_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** While Redis loads its data, it is asked again after this. */
const LOADING_LOOK_MS = 500;

/** A connection that never gives up: during an outage commands wait, in order, until Redis is back. The caller closes it. */
export function connectWorker(target: RedisTarget): Connection {
  const connection = openConnection(target, {
    maxRetriesPerRequest: null, // BullMQ requires null
    retryStrategy: (times) => Math.min(times * 200, 2_000), // with this, idle workers were back 0.3 s after Redis instead of 13 s
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_MS,
    maxLoadingRetryTime: LOADING_LOOK_MS,
    ...(target.cluster !== true && { reconnectOnError }),
  });

  /**
   * For READONLY after a failover. A refused script has written nothing, so it is sent again to the new master (2). Another command
   * may be a part of a transaction, which fails as a whole, so it is not sent again (1). A resend is reported nowhere else, so the
   * error is emitted here.
   */
  function reconnectOnError(error: Error): 2 | 1 | false {
    if (!isReadOnly(error)) return false;
    if (connection.listenerCount('error') > 0) connection.emit('error', new Error(error.message));
    return isScript(error) ? 2 : 1;
  }
  return connection;
}

/**
 * A connection for the limiter: a command that cannot be sent now fails now. An ask from an outage must not be admitted after it,
 * when its caller has given up. Commands have no timeout of their own, because the limiter has one for each ask.
 */
export function connectLimiter(target: RedisTarget, connectTimeoutMs: number): Connection {
  return openConnection(target, { ...failFast(target, connectTimeoutMs), commandTimeout: undefined });
}

/** The timeout of a producer's command. */
export const PRODUCER_TIMEOUT_MS = 5_000;

/** A connection for a web request or a script: a command that cannot be sent now fails now. The caller closes it. */
export function connectProducer(target: RedisTarget, timeoutMs: number = PRODUCER_TIMEOUT_MS): Connection {
  return openConnection(target, failFast(target, timeoutMs));
}

function failFast(target: RedisTarget, timeoutMs: number): ConnectionOptions {
  return {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0, // commands that were under way when the connection broke fail at once, not at their timeout
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
    socketTimeout: timeoutMs, // close a silent connection, so that the next command does not use it
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

/** The error to report: RedisAwayError if the connection was lost, silent, or Redis cannot work now; else the error itself. */
export function explained(connection: Connection, error: unknown): unknown {
  if (error instanceof RedisAwayError) return error;
  const cause = causeOf(error);
  const isTimeout = cause instanceof Error && cause.message === 'Command timed out';
  const isAway = isTimeout || isNotNow(cause) || !isReady(connection);
  return isAway ? new RedisAwayError(addressOf(connection), cause) : withoutCommand(error);
}

/** If a transaction failed, the error of the command that made it fail. */
function causeOf(error: unknown): unknown {
  const [first] = (error as { readonly previousErrors?: readonly unknown[] } | undefined)?.previousErrors ?? [];
  return first ?? error;
}

/** The server has become a replica. Redis 6 wraps a script's error in another one, so it is looked for anywhere. */
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

/** ioredis attaches the command to its errors, with passwords, tokens and whole notifications, and a log would print them. */
function withoutCommand(error: unknown, seen = new Set<unknown>()): unknown {
  if (!(error instanceof Error) || seen.has(error)) return error; // `seen`: all commands of a transaction may share one error
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
