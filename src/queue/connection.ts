import { Cluster, Redis, type RedisOptions } from 'ioredis';

// Set, it would change the shape of replies, and with it their types.
type Options = Omit<RedisOptions, 'replyMapping'>;

/** A connection to one Redis, or to a cluster. */
export type Connection = Redis | Cluster;

/** Where Redis is: `redis://` or `rediss://`, several comma-separated nodes with `cluster`. */
export interface RedisTarget {
  readonly redisUrl: string;
  readonly cluster?: boolean;
}

/** Redis did not answer; nothing is known about what was sent just before, and ids make it safe to send again. */
export class RedisAwayError extends Error {
  override readonly name = 'RedisAwayError';

  constructor(where: string, cause: unknown) {
    super(`Redis is away: ${where} (${reasonOf(cause)})`, { cause });
  }
}

/** A connection that never gives up: commands wait, in order, until Redis is back. The caller closes it. */
export function connectWorker(target: RedisTarget): Connection {
  return connect(target, {
    maxRetriesPerRequest: null, // BullMQ insists: a blocking command may wait for longer than any count of retries
    retryStrategy: (times) => Math.min(times * 200, 2_000), // idle workers are back 0.3 s after Redis, not 13 s
  });
}

/** The longest that a producer's command may take. */
export const PRODUCER_TIMEOUT_MS = 5_000;

/** A connection for a web request or a script: what cannot be done now fails now. The caller closes it. */
export function connectProducer(target: RedisTarget, timeoutMs: number = PRODUCER_TIMEOUT_MS): Connection {
  return connect(target, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 1,
    connectTimeout: timeoutMs,
    commandTimeout: timeoutMs,
    retryStrategy: (times) => Math.min(times * 100, 1_000),
  });
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

/** What a failed call is told as: RedisAwayError where the connection was lost or gave no answer, else the error itself. */
export function explained(connection: Connection, error: unknown): unknown {
  if (error instanceof RedisAwayError) return error;
  const isTimeout = error instanceof Error && error.message === 'Command timed out';
  return isTimeout || !isReady(connection) ? new RedisAwayError(addressOf(connection), error) : error;
}

function isReady(connection: Connection): boolean {
  return connection.status === 'ready';
}

/** `127.0.0.1:6379`: without user, password and database. */
function addressOf(connection: Connection): string {
  if (!(connection instanceof Cluster)) return endpoint(connection.options);
  const nodes: Redis[] = connection.nodes('all');
  if (nodes.length === 0) return 'no node of the cluster answers';
  return nodes.map((node) => endpoint(node.options)).join(', ');
}

function endpoint({ host = 'localhost', port = 6379, path }: Options): string {
  return path ?? `${host}:${port}`;
}

function connect(target: RedisTarget, options: Options): Connection {
  return target.cluster === true ? connectCluster(target.redisUrl, options) : new Redis(target.redisUrl, options);
}

function connectCluster(redisUrl: string, options: Options): Cluster {
  const nodes = redisUrl.split(',').map((url) => new URL(url.trim()));
  const [first] = nodes;
  const isTls = first?.protocol === 'rediss:';
  const redisOptions: Options = { ...options };
  // The nodes that the cluster names itself come without credentials: those of the first URL hold for all.
  if (first?.username) redisOptions.username = decodeURIComponent(first.username);
  if (first?.password) redisOptions.password = decodeURIComponent(first.password);
  if (isTls) redisOptions.tls = {};
  return new Cluster(
    nodes.map(({ hostname, port }) => ({ host: hostname, port: Number(port || 6379) })),
    {
      redisOptions,
      enableOfflineQueue: options.enableOfflineQueue ?? true,
      clusterRetryStrategy: (times) => Math.min(times * 200, 2_000),
      // A certificate names hosts: looking them up would have it compared with an address.
      ...(isTls && { dnsLookup: (address, found) => found(null, address) }),
    },
  );
}

function reasonOf(cause: unknown): string {
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join(', ');
  return cause instanceof Error ? cause.message : 'the connection was closed';
}
