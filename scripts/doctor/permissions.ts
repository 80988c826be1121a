import type { Redis } from 'ioredis';
import { breakerKeys } from '../../src/breaker/redis-breakers.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { findLayout, newLayout, prefixesOf } from '../../src/queue/shards/layout.ts';
import { DEAD_LETTERS, historyKeys, layoutKey, outcomesKey, QUEUE, workersKey } from '../../src/queue/names.ts';
import { quotaKeys } from '../../src/quota/redis-quota.ts';
import type { Connection } from '../../src/redis/connection.ts';
import { mastersOf } from '../../src/redis/info.ts';
import { createFindings, type Finding } from './check.ts';

/**
 * Finds out which commands the user of a Redis may call. Each command is put into a transaction that is never executed: Redis
 * checks the rights of a command when it is queued, and does nothing else. So this check needs no right of its own, unlike `ACL
 * DRYRUN`, and works from Redis 6 on. The commands of a script need the same rights as if its caller sent them.
 */

/** The commands that pushpacer sends, each with arguments that Redis accepts. `KEY` stands for a key. */
const PROBES: Readonly<Record<string, readonly string[]>> = {
  bzpopmin: ['KEY', '1'],
  'client|setname': ['pushpacer'],
  del: ['KEY'],
  eval: ['return 1', '0'],
  evalsha: ['0', '0'],
  exists: ['KEY'],
  expire: ['KEY', '1'],
  get: ['KEY'],
  hdel: ['KEY', 'field'],
  hexists: ['KEY', 'field'],
  hget: ['KEY', 'field'],
  hgetall: ['KEY'],
  hincrby: ['KEY', 'field', '1'],
  hlen: ['KEY'],
  hscan: ['KEY', '0'],
  hmget: ['KEY', 'field'],
  hmset: ['KEY', 'field', ''],
  hset: ['KEY', 'field', ''],
  hstrlen: ['KEY', 'field'],
  incr: ['KEY'],
  info: [],
  lindex: ['KEY', '0'],
  llen: ['KEY'],
  lpos: ['KEY', ''],
  lpush: ['KEY', ''],
  lrange: ['KEY', '0', '0'],
  lrem: ['KEY', '0', ''],
  ltrim: ['KEY', '0', '0'],
  mget: ['KEY'],
  persist: ['KEY'],
  pexpire: ['KEY', '1'],
  pexpireat: ['KEY', '1'],
  ping: [],
  pttl: ['KEY'],
  rpop: ['KEY'],
  rpoplpush: ['KEY', 'KEY'],
  rpush: ['KEY', ''],
  sadd: ['KEY', ''],
  scard: ['KEY'],
  set: ['KEY', ''],
  sismember: ['KEY', 'x'],
  smembers: ['KEY'],
  srem: ['KEY', ''],
  time: [],
  type: ['KEY'],
  unlink: ['KEY'],
  xadd: ['KEY', '*', 'field', ''],
  xlen: ['KEY'],
  xrange: ['KEY', '-', '+'],
  xrevrange: ['KEY', '+', '-'],
  xtrim: ['KEY', 'MAXLEN', '0'],
  zadd: ['KEY', '0', ''],
  zcard: ['KEY'],
  zcount: ['KEY', '0', '0'],
  zpopmin: ['KEY'],
  zrange: ['KEY', '0', '0'],
  zrangebyscore: ['KEY', '0', '0'],
  zrank: ['KEY', ''],
  zrem: ['KEY', ''],
  zremrangebyrank: ['KEY', '0', '0'],
  zremrangebyscore: ['KEY', '0', '0'],
  zrevrange: ['KEY', '0', '0'],
  zrevrangebyscore: ['KEY', '0', '0'],
  zrevrank: ['KEY', ''],
  zscore: ['KEY', ''],
};

/** The words of a text with spaces between them. */
function wordsOf(text: string): string[] {
  return text.trim().split(/\s+/);
}

/** Commands that every connection sends. */
const OF_CONNECTION = ['info', 'ping'];
/** Commands that are sent to the queue's Redis, by BullMQ and by pushpacer. A test compares them with what is really sent. */
const OF_QUEUE = wordsOf(`
  bzpopmin client|setname del eval evalsha exists expire get hdel hexists hget hgetall hincrby hmget hmset hset hstrlen incr
  lindex llen lpos lpush lrange lrem ltrim persist pexpire pexpireat pttl rpop rpoplpush rpush sadd scard set sismember smembers
  srem time type xadd xlen xrange xrevrange xtrim zadd zcard zcount zpopmin zrange zrangebyscore zrank zrem
  zremrangebyrank zremrangebyscore zrevrange zrevrangebyscore zscore
`);
/** Commands that are sent to the limiter's Redis: for the slots of recipients, the quotas and the breakers. */
const OF_LIMITER = wordsOf(`
  del eval evalsha exists get hdel hget hgetall hlen hmget hscan hset mget persist zcard pexpire pexpireat pttl set time
  unlink zadd zcount zrangebyscore zrem zremrangebyscore zrevrange zrevrank zscore
`);
/** Further commands that the client of a cluster sends. They are not tried: without them there is no connection to try them on. */
const OF_CLUSTER = ['asking', 'cluster|info', 'cluster|slots', 'readonly'];

/** The commands of a transaction, tried first, one by one. For the limiter's Redis only this check needs them. */
const TRANSACTION = ['exec', 'multi'];

export type RedisRole = 'queue' | 'limiter';

const OF_ROLE: Readonly<Record<RedisRole, readonly string[]>> = { queue: OF_QUEUE, limiter: OF_LIMITER };

/** The commands that pushpacer sends to a Redis with these roles, in the words of ACL rules, sorted. */
export function commandsUsed(roles: readonly RedisRole[]): string[] {
  const all = [...OF_CONNECTION, ...roles.flatMap((role) => OF_ROLE[role])];
  return [...new Set([...all, ...TRANSACTION])].toSorted();
}

/** As `commandsUsed`, for a cluster. */
export function commandsOnCluster(roles: readonly RedisRole[]): string[] {
  return [...commandsUsed(roles), ...OF_CLUSTER].toSorted();
}

/** `{pushpacer}` → `~{pushpacer*`, `~pushpacer:*`: patterns for all keys of queue shards, breakers and the limiter. */
export function keyPatterns(prefix: string): string[] {
  const bare = prefix.replaceAll(/[{}]/g, '');
  return [`~{${/\{(.+?)\}/.exec(prefix)?.[1] ?? prefix}*`, `~${bare}:*`];
}

/** A key of each family that pushpacer uses, with a name that is never used. */
function sampleKeys(roles: readonly RedisRole[], prefix: string, prefixes: readonly string[]): string[] {
  const ofQueue = prefixes.flatMap((shard) => [
    ...[`${shard}:${QUEUE}:${NOBODY}`, `${shard}:${DEAD_LETTERS}:${NOBODY}`],
    ...[outcomesKey(shard), historyKeys(shard).stories],
  ]);
  const ofLimiter = [
    ...[recipientKeys(prefix, NOBODY).sent, ...breakerKeys(prefix, 'apns').slice(0, 1)],
    ...quotaKeys(prefix, 'apns', NOBODY, []).slice(0, 1),
  ];
  return [
    ...(roles.includes('queue') ? [...ofQueue, workersKey(prefix), layoutKey(prefix)] : []),
    ...(roles.includes('limiter') ? ofLimiter : []),
  ];
}

const NOBODY = 'pushpacer-doctor';

export interface PermissionsOptions {
  readonly roles: readonly RedisRole[];
  readonly prefix: string;
  readonly shards: number;
}

/** Tries the rights of this connection's user, on each master of a cluster. Changes nothing. */
export async function checkPermissions(connection: Connection, options: PermissionsOptions): Promise<Finding[]> {
  const nodes = mastersOf(connection);
  // If the record cannot be read, the keys of a new queue are tried; the limiter's Redis has no record.
  const layout = await findLayout(connection, options).catch(() => newLayout(options));
  const samples = sampleKeys(options.roles, options.prefix, prefixesOf(layout));
  const refused = (
    await Promise.all(nodes.map((node) => refusedOn(node, options.roles, options.prefix, samples)))
  ).flat();
  return findingsOf([...new Set(refused)], options);
}

async function refusedOn(
  node: Redis,
  roles: readonly RedisRole[],
  prefix: string,
  samples: readonly string[],
): Promise<string[]> {
  // A connection of its own, so that other commands on `node` do not get into the transaction. It does not connect again: the
  // remaining commands would then be outside of a transaction, and be carried out.
  const own = node.duplicate({ reconnectOnError: null, retryStrategy: () => null });
  own.on('error', () => undefined);
  try {
    const ready = new Promise((resolve, reject) =>
      own.once('ready', resolve).once('error', reject).once('end', reject),
    );
    if (own.status === 'wait') void own.connect().catch(() => undefined); // a cluster's pool connects its nodes later
    await ready;
    const send = (name: string, ...args: readonly string[]): Promise<string> => {
      const words = name.split('|');
      return own.call(words[0] ?? '', ...words.slice(1), ...args).then(String, messageOf);
    };
    // Stop on any other answer: without a transaction the following commands would be carried out.
    if ((await send('multi')) !== 'OK') return ['multi'];
    const refused = isRefused(await send('exec')) ? ['exec'] : [];
    if (refused.length === 0 && (await send('multi')) !== 'OK') return ['multi'];
    const key = `${prefix}:${NOBODY}`;
    const tried = commandsUsed(roles).flatMap((name) => {
      const args = PROBES[name];
      return args === undefined ? [] : [[name, args] as const]; // the commands of the transaction itself are tried already
    });
    const replies = await Promise.all([
      ...tried.map(([name, args]) => send(name, ...args.map((arg) => (arg === 'KEY' ? key : arg)))),
      ...samples.map((sample) => send('del', sample)),
    ]);
    const commands = tried.flatMap(([name], index) => (isRefused(replies[index] ?? '') ? name : []));
    const keys = samples.flatMap((sample, index) =>
      IS_KEY_REFUSED.test(replies[tried.length + index] ?? '') ? `~${sample}` : [],
    );
    refused.push(...commands, ...keys);
    return refused;
  } finally {
    own.disconnect(); // the transaction is never executed
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Whether the reply says that the user may not run the command, or that the server does not know it (some servers lack or hide
 * a command). Redis checks the command before its keys.
 */
function isRefused(reply: string): boolean {
  return /^NOPERM .*permissions? to run|^ERR unknown (command|subcommand)/i.test(reply);
}

const IS_KEY_REFUSED = /^NOPERM .*\bkeys?\b/i;

function findingsOf(refused: readonly string[], { roles, prefix }: PermissionsOptions): Finding[] {
  const { ok, fault } = createFindings('commands');
  const [keys, commands] = [
    refused.filter((each) => each.startsWith('~')),
    refused.filter((each) => !each.startsWith('~')),
  ];
  const findings: Finding[] = [];
  if (commands.length > 0) {
    const rules = commands.map((name) => `+${name}`).join(' ');
    const advice = `let it: ACL SETUSER <user> ${rules} (docs/redis.md has all of them)`;
    findings.push(fault(`the user of this URL may not call ${commands.join(', ')}`, advice));
  }
  if (keys.length > 0) {
    const advice = `let it: ACL SETUSER <user> ${keyPatterns(prefix).join(' ')}`;
    findings.push(
      fault(`the user of this URL may not use keys such as ${keys.map((key) => key.slice(1)).join(', ')}`, advice),
    );
  }
  const count = commandsUsed(roles).length;
  return findings.length > 0
    ? findings
    : [ok(`the user of this URL may call all ${count} commands that pushpacer uses`)];
}
