import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { faultOf, InputError, type Fault } from '../domain/faults.ts';
import { steady } from './cluster.ts';
import { followMaster } from './sentinel.ts';

/**
 * Writes all commands of one turn of the event loop to the socket together. ioredis makes a system call for each command, which was
 * a tenth of a busy worker's time.
 */
class BatchingRedis extends Redis {
  #isBatching = false;

  override sendCommand(...args: Parameters<Redis['sendCommand']>): unknown {
    if (!this.#isBatching) this.#batchUntilTurnEnds();
    return super.sendCommand(...args);
  }

  #batchUntilTurnEnds(): void {
    const socket = this.stream as Redis['stream'] | undefined; // there is none before the first try to connect
    if (socket === undefined) return;
    this.#isBatching = true;
    socket.cork();
    setImmediate(() => {
      this.#isBatching = false;
      socket.uncork();
    });
  }
}

/** ioredis's options without `replyMapping`, which would change the shape of replies and so their types. */
export type ConnectionOptions = Omit<RedisOptions, 'replyMapping'>;

/** A client of ioredis: connected to one Redis, to the master that the Sentinels name, or to a cluster. */
export type Connection = Redis | Cluster;

/** Where Redis is. */
export interface RedisTarget {
  /**
   * `redis://` or `rediss://` (TLS); several, comma-separated, with `cluster` (its nodes) or `sentinel` (the Sentinels).
   * Special characters of a password are percent-encoded. The only path is the number of a database: `redis://host/2`. Default,
   * also for an empty text: `redis://127.0.0.1:6379`, as for a worker without `REDIS_URL`.
   */
  readonly redisUrl?: string | undefined;
  /** True: the URLs name some nodes of a Redis Cluster; the client finds the other nodes itself. Default: false. */
  readonly cluster?: boolean | undefined;
  /** The URLs name Sentinels. User, password and database of the first URL are for Redis, not for the Sentinels. */
  readonly sentinel?: SentinelTarget | undefined;
}

/** How Sentinels find the master, and how to sign in to them. */
export interface SentinelTarget {
  /** The Sentinels' name for the master: `mymaster`. */
  readonly name: string;
  /** The password of the Sentinels themselves. Default: none. */
  readonly password?: string | undefined;
}

const REDIS_PORT = 6379;
const SENTINEL_PORT = 26_379;
/** If a Sentinel does not answer for this long, the next one is asked. */
const SENTINEL_TIMEOUT_MS = 2_000;

/** Connects at once. Throws InputError if the target is not usable. */
export function openConnection(target: RedisTarget, options: ConnectionOptions): Connection {
  const faults = targetFaults(target);
  if (faults.length > 0) throw new InputError('unusable options', faults);
  const { cluster, sentinel } = target;
  const redisUrl = urlOf(target);
  if (cluster === true) {
    const connection = connectCluster(redisUrl, options);
    const isTls = sharedBy(redisUrl).tls !== undefined;
    STARTUP_NODES.set(
      connection,
      nodesOf(redisUrl, REDIS_PORT).map((node) => ({ ...node, isTls })),
    );
    return connection;
  }
  if (sentinel !== undefined) return connectSentinel(redisUrl, sentinel, options);
  return new BatchingRedis(redisUrl, options);
}

/** `127.0.0.1:6379`: without user, password and database. */
export function addressOf(connection: Connection): string {
  if (!(connection instanceof Cluster)) return endpoint(connection.options);
  const nodes: Redis[] = connection.nodes('all');
  if (nodes.length > 0) return nodes.map((node) => endpoint(node.options)).join(', ');
  const given = STARTUP_NODES.get(connection) ?? [];
  return given.length === 0 ? 'no node of the cluster answers' : given.map(formatEndpoint).join(', ');
}

/** A place on the network that a client connects to. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
}

/** The nodes with which a cluster was opened, for a cluster that has lost all its nodes. */
const STARTUP_NODES = new WeakMap<Connection, readonly Endpoint[]>();

/** `one:6379` */
export function formatEndpoint({ host, port }: Endpoint): string {
  return `${host}:${port}`;
}

/** The places to which a client connects first; with Sentinels, the Sentinels. None for a Unix socket. */
export function placesOf(connection: Connection): readonly Endpoint[] {
  const { isCluster, options } = connection as Partial<Redis>; // a caller's own client may be of another copy of ioredis
  if (isCluster !== false || options === undefined) return STARTUP_NODES.get(connection) ?? [];
  const { host = 'localhost', port = REDIS_PORT, path, sentinels, tls, sentinelTLS } = options;
  if (sentinels) {
    const isTls = sentinelTLS !== undefined;
    return sentinels.map((each) => ({ host: each.host ?? 'localhost', port: each.port ?? SENTINEL_PORT, isTls }));
  }
  return typeof path === 'string' ? [] : [{ host, port, isTls: tls !== undefined }];
}

function endpoint({ host = 'localhost', port = REDIS_PORT, path, sentinels, name = '' }: ConnectionOptions): string {
  if (!sentinels) return path ?? `${host}:${port}`;
  return `${name} by Sentinel ${sentinels.map(({ host = '', port = '' }) => `${host}:${port}`).join(', ')}`;
}

/** An empty text counts as absent, as an empty `REDIS_URL` does. */
function urlOf({ redisUrl = '' }: RedisTarget): string {
  return redisUrl === '' ? DEFAULT_REDIS_URL : redisUrl;
}

/** Every fault of a target: a URL that a worker would refuse as `REDIS_URL`, and options that contradict each other. */
export function targetFaults(target: RedisTarget): Fault[] {
  const { cluster, sentinel } = target;
  const redisUrl: unknown = urlOf(target); // callers may be plain JavaScript
  const urls = typeof redisUrl === 'string' ? parseRedisUrls(redisUrl) : undefined;
  const faults: Fault[] = [];
  if (urls === undefined) faults.push(faultOf('redisUrl', REDIS_URLS_FORMAT, redisUrl, true));
  if (sentinel !== undefined && (target.redisUrl ?? '') === '') {
    faults.push({ path: 'redisUrl', expected: 'Sentinels, since sentinel is given', found: 'nothing' });
  }
  const isCluster: unknown = cluster;
  if (isCluster !== undefined && typeof isCluster !== 'boolean') {
    faults.push(faultOf('cluster', 'true or false', isCluster));
  }
  const name: unknown = sentinel?.name;
  if (sentinel !== undefined && (typeof name !== 'string' || name === '')) {
    faults.push(faultOf('sentinel.name', 'the name of a master, such as mymaster', name));
  }
  const count = urls?.length ?? 0;
  if (cluster === true && sentinel !== undefined) {
    faults.push({ path: 'sentinel', expected: 'none, since cluster is true', found: JSON.stringify(sentinel.name) });
  }
  if (cluster !== true && sentinel === undefined && count > 1) {
    faults.push({ path: 'redisUrl', expected: 'one URL, or cluster, or sentinel', found: `${count} URLs` });
  }
  return faults;
}

function connectCluster(redisUrl: string, options: ConnectionOptions): Cluster {
  // The cluster gives the addresses of further nodes without credentials, so the credentials of the first URL are used for all
  // nodes.
  const shared = sharedBy(redisUrl);
  const cluster = new Cluster(nodesOf(redisUrl, REDIS_PORT), {
    redisOptions: { ...options, ...shared },
    enableOfflineQueue: options.enableOfflineQueue ?? true,
    clusterRetryStrategy: (times) => Math.min(times * 200, 2_000),
    // No DNS look-up with TLS: the certificate would be compared with the address instead of the host name.
    ...(shared.tls && { dnsLookup: (address, found) => found(null, address) }),
  });
  return steady(cluster);
}

function connectSentinel(redisUrl: string, { name, password }: SentinelTarget, options: ConnectionOptions): Redis {
  const shared = sharedBy(redisUrl);
  return followMaster((all) => new BatchingRedis(all), {
    ...options,
    ...shared,
    db: databaseOf(redisUrl),
    sentinels: nodesOf(redisUrl, SENTINEL_PORT),
    name,
    role: 'master',
    ...(password !== undefined && { sentinelPassword: password }),
    ...(shared.tls && { sentinelTLS: shared.tls, enableTLSForSentinelMode: true }),
    sentinelCommandTimeout: SENTINEL_TIMEOUT_MS,
    sentinelRetryStrategy: (times) => Math.min(times * 200, 2_000),
  });
}

function nodesOf(redisUrl: string, defaultPort: number): { host: string; port: number }[] {
  return urlsOf(redisUrl).map(({ hostname, port }) => ({
    host: hostname.replaceAll(/[[\]]/g, ''), // an IPv6 address
    port: Number(port || defaultPort),
  }));
}

/** The credentials and TLS of the first URL, which are used for all nodes. */
function sharedBy(redisUrl: string): Pick<ConnectionOptions, 'username' | 'password' | 'tls'> {
  const [first] = urlsOf(redisUrl);
  return {
    ...(first?.username && { username: decodeURIComponent(first.username) }),
    ...(first?.password && { password: decodeURIComponent(first.password) }),
    ...(first?.protocol === 'rediss:' && { tls: {} }),
  };
}

function databaseOf(redisUrl: string): number {
  return Number(urlsOf(redisUrl)[0]?.pathname.slice(1) ?? 0);
}

function urlsOf(redisUrl: string): URL[] {
  return redisUrl.split(',').map((url) => new URL(url.trim()));
}

/** A worker's `REDIS_URL` and a producer's `redisUrl`. */
export const DEFAULT_REDIS_URL = 'redis://127.0.0.1:6379';
export const REDIS_URLS_FORMAT =
  'redis:// or rediss:// URLs such as redis://127.0.0.1:6379, comma-separated, each with the number of a database or without a path';

/** `"redis://one, redis://two"` → both URLs; `undefined` if one of them is no Redis URL. */
export function parseRedisUrls(text: string): string[] | undefined {
  const urls = text.split(',').map((url) => url.trim());
  return urls.every((url) => /^rediss?:\/\//.test(url) && hasReadableUser(url) && hasUsableDatabase(url))
    ? urls
    : undefined;
}

/** Whether user and password can be decoded. False for a password with a `%` that is not percent-encoded. */
function hasReadableUser(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { username, password } = new URL(url);
  try {
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

/** False for another path or `db` than a number: Redis would refuse it, and the client's error would end the process. */
function hasUsableDatabase(url: string): boolean {
  const { pathname, searchParams } = new URL(url);
  return /^\/?\d*$/.test(pathname) && searchParams.getAll('db').every((db) => /^\d+$/.test(db));
}

/**
 * A worker's `QUEUE_PREFIX` and a producer's `prefix`. The braces (a hash tag) put all keys of a queue and of its dead letters
 * into one hash slot of a Redis Cluster.
 */
export const DEFAULT_PREFIX = '{pushpacer}';
export const PREFIX_PATTERN = /^[^\s:]{1,64}$/;
export const PREFIX_FORMAT = 'up to 64 characters without spaces and colons, such as {pushpacer}';

/** A worker's `QUEUE_SHARDS` and a producer's `shards`. */
export const MAX_SHARDS = 64;
