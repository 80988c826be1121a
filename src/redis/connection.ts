import { withoutCredentials } from '../notification/redact.ts';
import { within } from '../domain/time.ts';
import {
  causeOf,
  forbiddenReason,
  isScript,
  lookAt,
  reasonOf,
  refusalReason,
  troubleOf,
  wasNotCarried,
  withoutCommand,
  WrongServerError,
  type RedisTrouble,
} from './diagnosis.ts';
import { whenMastersConnected } from './cluster.ts';
import { isNotNow } from './deadline.ts';
import {
  addressOf,
  openConnection,
  placesOf,
  type Connection,
  type ConnectionOptions,
  type RedisTarget,
} from './target.ts';

export { isLasting, type RedisTrouble } from './diagnosis.ts';
export type { Connection, RedisTarget } from './target.ts';

/**
 * Redis did not answer, cannot work now (`OOM`, `READONLY`), or cannot be used as it is configured: `trouble` says which. The
 * last command may or may not have been carried out; since notifications have ids, it is safe to send it again.
 */
export class RedisAwayError extends Error {
  /** To recognise it without the class, such as across two copies of the package. */
  override readonly name = 'RedisAwayError';
  /**
   * `away` and `not-now` pass by themselves. With `credentials`, `permission`, `not-redis` and `tls` nothing was carried out,
   * and a second try fails too until an operator corrects the URL or the server.
   */
  readonly trouble: RedisTrouble;

  /** `where`: the address, without user and password. */
  constructor(where: string, cause: unknown) {
    const trouble = troubleOf(cause);
    super(withoutCredentials(textOf(trouble, where, cause)), { cause: withoutCommand(cause) });
    this.trouble = trouble;
  }
}

function textOf(trouble: RedisTrouble, where: string, cause: unknown): string {
  if (cause instanceof WrongServerError) return cause.message;
  switch (trouble) {
    case 'away':
      return `Redis is away: ${where} (${reasonOf(cause)})`;
    case 'not-now':
      return `Redis cannot now: ${where} (${reasonOf(cause)})`;
    case 'credentials':
      return `Redis refuses the credentials: ${where} (${refusalReason(cause) ?? reasonOf(cause)})`;
    case 'permission':
      return `Redis forbids a command: ${where} (${forbiddenReason(cause) ?? reasonOf(cause)}); pushpacer doctor names all rights that are missing`;
    case 'not-redis':
      return `${where} is not a Redis server (its answer is none of Redis's)`;
    case 'tls':
      return `no TLS with Redis: ${where} (${reasonOf(cause)})`;
  }
}

/**
 * If a connection gives no answer for this long, it is closed. Otherwise, if the server's machine disappears, TCP would keep
 * the commands waiting for a quarter of an hour. It must be longer than BullMQ's longest blocking command, which takes 10 s
 * plus a second.
 */
const SILENCE_MS = 12_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** While Redis loads its data, ioredis looks again after at most this time. */
const LOADING_LOOK_MS = 500;

/** A connection that never gives up: during an outage commands wait, in order, until Redis answers again. The caller closes it. */
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
   * For READONLY after a failover. A refused script has written nothing, so ioredis sends it again to the new master (2).
   * Another command may be a part of a transaction, which fails as a whole, so it is not sent again (1). ioredis reports a
   * resend nowhere, so the error is emitted here.
   */
  function reconnectOnError(error: Error): 2 | 1 | false {
    if (!isReadOnly(error)) return false;
    if (connection.listenerCount('error') > 0) connection.emit('error', new Error(error.message));
    return isScript(error) ? 2 : 1;
  }
  return connection;
}

/**
 * A connection for the limiter: a command that cannot be sent now fails now. An ask that was made during an outage must not be
 * admitted after the outage, when its caller has given up. Commands have no timeout of their own, because the limiter has one
 * for each ask.
 */
export function connectLimiter(target: RedisTarget, connectTimeoutMs: number): Connection {
  return openConnection(target, { ...failFast(target, connectTimeoutMs), commandTimeout: undefined });
}

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

/** Redis's clock: epoch milliseconds. */
export async function readClock(connection: Connection): Promise<number> {
  const [seconds, microseconds] = await connection.time();
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

const NOT_WHOLE = 'no node answers, or one still loads its data, or not every slot has a master';

/** Resolves once commands can be sent; rejects with RedisAwayError after at most `timeoutMs`. */
export async function whenReady(connection: Connection, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  if (!isReady(connection)) await becomeReady(connection, timeoutMs);
  await whenMastersConnected(connection, deadline - performance.now());
}

async function becomeReady(connection: Connection, timeoutMs: number): Promise<void> {
  const state = nextState(connection); // outside of the `try`: what it throws itself is a mistake in the code, not an outage
  try {
    await within(state, timeoutMs, () => {
      const within = `within ${Math.round(timeoutMs)} ms`;
      // While a hash slot has no master, ioredis connects again and again, and reports nothing.
      throw new Error(
        connection.isCluster ? `the cluster was not ready ${within}: ${NOT_WHOLE}` : `no answer ${within}`,
      );
    });
  } catch (error) {
    throw new RedisAwayError(addressOf(connection), error);
  }
}

/** All callers of a connection share one wait: during an outage a web server may have hundreds of requests. */
const waits = new WeakMap<Connection, Promise<unknown>>();

/** Without a connection after this time, a look at the port may show why: a plain Redis does not answer a client with TLS. */
const LOOK_AFTER_MS = 250;

/** Resolves when the connection becomes ready. Rejects when a try to connect fails, or when the connection is closed for good. */
function nextState(connection: Connection): Promise<unknown> {
  const known = waits.get(connection);
  if (known !== undefined) return known;
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const places = placesOf(connection);
  let lastError: unknown;
  const look = async (): Promise<void> => {
    const found = await lookAt(places, lastError);
    if (found !== undefined) reject(found);
    else if (lastError !== undefined) reject(lastError);
  };
  const fail = (error: unknown): void => {
    lastError = error;
    if (isUnclear(error)) void look();
    else reject(error);
  };
  const timer = setTimeout(() => void look(), LOOK_AFTER_MS);
  connection.once('ready', resolve).once('error', fail).once('end', reject);
  const forget = (): void => {
    waits.delete(connection);
    clearTimeout(timer);
    connection.off('ready', resolve).off('error', fail).off('end', reject);
  };
  promise.then(forget, forget);
  waits.set(connection, promise);
  return promise;
}

/** Whether a look at the port can say more than this error. */
function isUnclear(error: unknown): boolean {
  const trouble = troubleOf(error);
  return trouble === 'not-redis' || trouble === 'tls';
}

/** What a failed try to connect means. If the error is unclear, the port is looked at. Never rejects. */
export async function explainedLoss(connection: Connection, error: unknown): Promise<RedisAwayError> {
  const found = isUnclear(error) ? await lookAt(placesOf(connection), error) : undefined;
  return new RedisAwayError(addressOf(connection), found ?? error);
}

/**
 * RedisAwayError if the connection broke or was silent, or if Redis cannot work now or refuses this client. Else `error`,
 * without its command (`withoutCommand`).
 */
export function explained(connection: Connection, error: unknown): unknown {
  if (error instanceof RedisAwayError) return error;
  const cause = causeOf(error);
  const isRefused = refusalReason(cause) !== undefined || forbiddenReason(cause) !== undefined;
  const isAway = isRefused || wasNotCarried(cause) || isNotNow(cause) || isRedirect(cause) || !isReady(connection);
  return isAway ? new RedisAwayError(addressOf(connection), cause) : withoutCommand(error);
}

/**
 * Whether a transaction met a hash slot that is being moved: its commands got different answers, so ioredis follows none. Redis
 * carried out none of them (EXECABORT).
 */
function isRedirect(cause: unknown): boolean {
  return cause instanceof Error && /^(ASK|MOVED) \d/.test(cause.message);
}

/** Whether the server has become a replica. Redis 6 wraps a script's error, so the word may be anywhere in the message. */
function isReadOnly(error: Error): boolean {
  return /\bREADONLY\b/.test(error.message);
}

function isReady(connection: Connection): boolean {
  return connection.status === 'ready';
}
