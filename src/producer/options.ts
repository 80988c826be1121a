import { describeFound, InputError, optionFaults, type Fault, type OptionNames } from '../domain/faults.ts';
import { PRODUCER_TIMEOUT_MS, type Connection, type RedisTarget } from '../redis/connection.ts';
import {
  DEFAULT_PREFIX,
  MAX_SHARDS,
  PREFIX_FORMAT,
  PREFIX_PATTERN,
  targetFaults,
  type SentinelTarget,
} from '../redis/target.ts';

/** Where the queue is, and how long to wait for it. All options have the defaults of a worker's variables. */
export interface ProducerOptions extends RedisTarget {
  /**
   * A connection that the caller opens and closes, in place of `redisUrl`, `cluster` and `sentinel`. Its own settings decide
   * how long a command may wait. If it is a Cluster, ioredis may end the process while a hash slot moves: docs/limiter.md says
   * how to prevent that.
   */
  readonly connection?: Connection | undefined;
  /** The worker's `QUEUE_PREFIX`: up to 64 characters without spaces and colons. Default, also for an empty text: `{pushpacer}`. */
  readonly prefix?: string | undefined;
  /**
   * The worker's `QUEUE_SHARDS`: 1 to 64. Default: 1. Used only for a new queue: afterwards the record in Redis decides, and
   * this process follows it (docs/shards.md).
   */
  readonly shards?: number | undefined;
  /**
   * The workers' `LIMITER_REDIS_URL`. `cancel` asks the limiter whether a notification can still be canceled, and `status` asks
   * how many are before it. If the queue's Redis has `cluster` or `sentinel`, give the URLs of the limiter's nodes or
   * Sentinels. Default: the queue's Redis.
   */
  readonly limiterRedisUrl?: string | undefined;
  /** The workers' `LIMITER_REDIS_SENTINEL_NAME`: the limiter's master. Default: the name in `sentinel`. */
  readonly limiterSentinelName?: string | undefined;
  /** The longest wait for Redis before RedisAwayError, in milliseconds. Default: 5,000. */
  readonly timeoutMs?: number | undefined;
  /**
   * Traces by the OpenTelemetry of this process: a span for each call that enqueues, which the workers' spans link to
   * (docs/tracing.md). Needs `@opentelemetry/api`. Default: true if a variable `OTEL_…` is set. OTEL_SDK_DISABLED=true turns it off.
   */
  readonly tracing?: boolean | undefined;
}

const OPTIONS: OptionNames<ProducerOptions> = {
  ...{ redisUrl: true, cluster: true, sentinel: true, connection: true, prefix: true, shards: true, timeoutMs: true },
  ...{ limiterRedisUrl: true, limiterSentinelName: true, tracing: true },
};
const SENTINEL_OPTIONS: OptionNames<SentinelTarget> = { name: true, password: true };
/** Names of options in other clients, each with the name that it has here. */
const MEANT = {
  ...{
    uri: 'redisUrl',
    host: 'redisUrl',
    port: 'redisUrl',
    password: 'redisUrl',
    username: 'redisUrl',
    db: 'redisUrl',
  },
  ...{ connectionString: 'redisUrl', sentinels: 'redisUrl and sentinel', client: 'connection' },
};
const MEANT_IN_SENTINEL = { url: 'redisUrl', master: 'name', sentinelPassword: 'password' };

interface Checked {
  readonly prefix: string;
  readonly shards: number;
  readonly timeoutMs: number;
}

/** The longest timer of Node; a longer one would fire at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** The options with their defaults. Throws InputError with every fault. */
export function checkOptions(options: ProducerOptions): Checked {
  const unknown = optionFaults(options, OPTIONS, '', MEANT);
  if (options.sentinel !== undefined) {
    unknown.push(...optionFaults(options.sentinel, SENTINEL_OPTIONS, 'sentinel', MEANT_IN_SENTINEL));
  }
  const { shards = 1, timeoutMs = PRODUCER_TIMEOUT_MS } = options;
  const prefix = options.prefix === undefined || options.prefix === '' ? DEFAULT_PREFIX : options.prefix;
  const ofTarget = options.connection === undefined ? targetFaults(options) : connectionFaults(options);
  const faults = [...unknown, ...ofTarget];
  const limiter = limiterTarget(options);
  if (limiter !== undefined) {
    const inLimiter = targetFaults(limiter).filter(({ path }) => path === 'redisUrl');
    faults.push(...inLimiter.map((fault) => ({ ...fault, path: 'limiterRedisUrl' })));
  }
  if (typeof prefix !== 'string' || !PREFIX_PATTERN.test(prefix)) {
    faults.push({ path: 'prefix', expected: PREFIX_FORMAT, found: describeFound(prefix, false) });
  }
  if (options.cluster === true && !/\{[^{}]+\}/.test(prefix)) {
    const expected = 'a prefix with a {tag}, since cluster is true';
    faults.push({ path: 'prefix', expected, found: describeFound(prefix, false) });
  }
  if (!(Number.isInteger(shards) && shards >= 1 && shards <= MAX_SHARDS)) {
    faults.push({
      path: 'shards',
      expected: `an integer from 1 to ${MAX_SHARDS}`,
      found: describeFound(shards, false),
    });
  }
  if (!(Number.isFinite(timeoutMs) && timeoutMs >= 1 && timeoutMs <= MAX_TIMEOUT_MS)) {
    const expected = `milliseconds, from 1 to ${MAX_TIMEOUT_MS}`;
    faults.push({ path: 'timeoutMs', expected, found: describeFound(timeoutMs, false) });
  }
  const { tracing } = options;
  if (tracing !== undefined && typeof tracing !== 'boolean') {
    faults.push({ path: 'tracing', expected: 'true or false', found: describeFound(tracing, true) });
  }
  if (faults.length > 0) throw new InputError('unusable options', faults);
  return { prefix, shards, timeoutMs };
}

/** The limiter's Redis; undefined if it is the queue's. An empty URL counts as none, as an empty variable does. */
export function limiterTarget(options: ProducerOptions): RedisTarget | undefined {
  const { limiterRedisUrl, limiterSentinelName: name, sentinel, connection } = options;
  const isOwn = limiterRedisUrl !== undefined && limiterRedisUrl !== '';
  if (!isOwn && name === undefined) return undefined;
  return {
    redisUrl: isOwn ? limiterRedisUrl : options.redisUrl,
    cluster: options.cluster ?? connection?.isCluster,
    sentinel: sentinel && { ...sentinel, ...(name !== undefined && { name }) },
  };
}

/**
 * BullMQ's own `connection` may also be an object of options. Here it may not, since nothing would close the connection that
 * BullMQ opens.
 */
function connectionFaults({ connection, ...target }: ProducerOptions): Fault[] {
  const client = connection as Partial<Connection> | null; // callers may be plain JavaScript
  const faults: Fault[] = [];
  if (typeof client?.once !== 'function') {
    const expected = 'an open Redis or Cluster of ioredis';
    faults.push({ path: 'connection', expected, found: describeFound(client, true) });
  }
  for (const path of ['redisUrl', 'cluster', 'sentinel'] as const) {
    if (target[path] === undefined) continue;
    faults.push({ path, expected: 'none, since connection is given', found: 'one' });
  }
  return faults;
}
