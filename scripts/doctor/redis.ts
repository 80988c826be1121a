import { Cluster, type Redis } from 'ioredis';
import type { RedisConfig } from '../../src/config/config.ts';
import { errorChain, withoutCredentials } from '../../src/notification/redact.ts';
import {
  connectProducer,
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
  type Connection,
  type RedisTrouble,
} from '../../src/redis/connection.ts';
import { mastersOf, parseInfo, type Info } from '../../src/redis/info.ts';
import { addressOf } from '../../src/redis/target.ts';
import { counted, span } from '../../src/terminal/text.ts';
import { createFindings, type Finding } from './check.ts';
import { checkPermissions, type RedisRole } from './permissions.ts';

/** Checks whether a Redis is as pushpacer needs it (docs/redis.md): `INFO`, clock, round trips, and the user's rights. */

export interface RedisToCheck {
  /** `redis`, or `limiter` for a Redis of the limiter's own. The name of each check begins with it. */
  readonly label: 'redis' | 'limiter';
  readonly config: RedisConfig;
  readonly roles: readonly RedisRole[];
  readonly prefix: string;
  readonly shards: number;
  /** REDIS_WAIT_REPLICAS, for the limiter's Redis. */
  readonly waitReplicas: number;
}

/** Connects, checks, lets `work` use the connection and add findings of its own, and closes the connection. */
export async function checkRedis(
  redis: RedisToCheck,
  work: (connection: Connection) => Promise<readonly Finding[]>,
): Promise<Finding[]> {
  const connection = connectProducer(redis.config);
  connection.on('error', () => undefined); // the call that fails reports it
  try {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    const findings = await lookAtServers(connection, redis);
    const more = await work(connection).catch((error: unknown) => [failure(redis.label, connection, error)]);
    return [...findings, ...more];
  } catch (error) {
    return [failure(redis.label, connection, error)];
  } finally {
    connection.disconnect();
  }
}

function failure(label: string, connection: Connection, error: unknown): Finding {
  const { fault } = createFindings(label);
  const known = explained(connection, error);
  if (known instanceof RedisAwayError) return fault(known.message, REPAIR[known.trouble]);
  return fault(withoutCredentials(errorChain(known)), 'look at the other lines about this Redis, and at its log');
}

const REPAIR: Readonly<Record<RedisTrouble, string>> = {
  away: 'start it, or correct its URL; look at the firewall between here and there',
  'not-now': 'the text in brackets says why: give it memory, or point the URL at the master',
  credentials: 'correct the user and the password in the URL',
  permission: 'give the user this right; docs/redis.md has the list of all',
  'not-redis': 'correct the host and the port in the URL',
  tls: 'begin the URL with rediss:// for TLS and with redis:// without; NODE_EXTRA_CA_CERTS may name the file of a CA',
};

async function lookAtServers(connection: Connection, redis: RedisToCheck): Promise<Finding[]> {
  const nodes = mastersOf(connection);
  const findings: Finding[] = [];
  const clocks: MasterClock[] = [];
  for (const node of nodes) {
    const timing = await measure(node);
    clocks.push({ where: addressOf(node), ...timing });
    const found = await lookAtServer(node, timing, redis);
    const where = nodes.length > 1 ? `${addressOf(node)}: ` : '';
    findings.push(...found.map((finding) => ({ ...finding, text: `${where}${finding.text}` })));
  }
  return [
    ...findings,
    ...(redis.roles.includes('limiter') ? named(redis.label, mastersClocks(clocks)) : []),
    ...(connection instanceof Cluster ? await clusterFindings(connection, redis) : []),
    ...named(redis.label, await checkPermissions(connection, redis)),
  ];
}

/** `commands` → `limiter commands` */
function named(label: string, findings: readonly Finding[]): Finding[] {
  return findings.map((finding) => ({ ...finding, check: `${label} ${finding.check}` }));
}

async function lookAtServer(node: Redis, timing: Timing, redis: RedisToCheck): Promise<Finding[]> {
  const { label } = redis;
  const answers = createFindings(label);
  const info = await node.info().then(parseInfo, () => undefined);
  const reached = `${addressOf(node)} answers in ${tripText(timing.tookMs)}`;
  const findings =
    info === undefined
      ? [
          answers.warning(
            `${reached}; it does not let its user call INFO`,
            'let it, since nothing of its settings is known',
          ),
        ]
      : [
          answers.ok(`${reached}: ${serverText(info)}`),
          ...named(label, [
            versionFinding(info),
            roleFinding(info, redis),
            evictionFinding(info),
            memoryFinding(info),
            ...clientsFindings(info),
            ...(await persistenceFindings(node, info)),
            hzFinding(info),
            ...replicaFindings(info),
            ...waitFindings(info, redis),
          ]),
        ];
  return [...findings, ...named(label, [distanceFinding(timing), clockFinding(timing), await scriptsFinding(node)])];
}

const numberIn = (info: Info, name: string): number => Number(info.get(name) ?? NaN);

/** `Redis 7.0.15` or `Valkey 8.0.1` */
function serverText(info: Info): string {
  const valkey = info.get('valkey_version');
  return valkey === undefined ? `Redis ${info.get('redis_version') ?? 'of an unknown version'}` : `Valkey ${valkey}`;
}

function versionFinding(info: Info): Finding {
  const { ok, fault } = createFindings('version');
  const version = info.get('redis_version') ?? '0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > 6 || (major === 6 && minor >= 2)) return ok(`${version}, and 6.2 is enough`);
  return fault(`it is Redis ${version}`, 'use 6.2 or newer; pushpacer is tested with 7.0');
}

function roleFinding(info: Info, { config }: RedisToCheck): Finding {
  const { ok, fault } = createFindings('role');
  if (info.get('role') !== 'master') {
    const advice = 'point the URL at the master, or set REDIS_SENTINEL_NAME for one that may change';
    return fault('it is a replica, and takes no writes', advice);
  }
  if (info.get('cluster_enabled') === '1' && !config.cluster) {
    return fault('it is a node of a cluster', 'set REDIS_CLUSTER=true, and QUEUE_PREFIX with a {tag}');
  }
  const by = config.sentinel === undefined ? '' : `, as the Sentinels say of ${config.sentinel.name}`;
  return ok(`a master${by}${config.cluster ? ' of a cluster' : ''}`);
}

function evictionFinding(info: Info): Finding {
  const { ok, warning, fault } = createFindings('eviction');
  const policy = info.get('maxmemory_policy') ?? 'not known';
  const evicted = numberIn(info, 'evicted_keys');
  if (policy === 'noeviction' && evicted > 0) {
    const text = `maxmemory-policy noeviction, but it evicted ${counted(evicted, 'key')} since its start, under another policy`;
    const advice =
      'enqueue again what producers know to be missing (docs/runbook.md); CONFIG RESETSTAT ends this warning';
    return warning(text, advice);
  }
  if (policy === 'noeviction') return ok('maxmemory-policy noeviction');
  const advice = 'set maxmemory-policy noeviction: CONFIG SET maxmemory-policy noeviction, and in redis.conf';
  const text = `maxmemory-policy is ${policy}: a full Redis drops slots, and so lifts limits, or drops jobs`;
  return numberIn(info, 'maxmemory') > 0 ? fault(text, advice) : warning(`${text}; it has no maxmemory now`, advice);
}

/** The share of memory in use from which there is a warning, and the share from which there is a fault. */
const [MEMORY_NEAR, MEMORY_FULL] = [0.8, 0.95];

function memoryFinding(info: Info): Finding {
  const { ok, warning, fault } = createFindings('memory');
  const [used, max, machine] = ['used_memory', 'maxmemory', 'total_system_memory'].map((name) => numberIn(info, name));
  const bound = max || machine || NaN;
  const share = (used ?? NaN) / bound;
  const of = max ? `maxmemory ${size(max)}` : `the machine's ${size(bound)}, without a maxmemory`;
  const text = `${size(used ?? NaN)} used of ${of}`;
  const advice = 'give it more memory: a full Redis takes no more notifications (docs/capacity.md)';
  if (share >= MEMORY_FULL) return fault(text, advice);
  return share >= MEMORY_NEAR ? warning(text, advice) : ok(text);
}

/** `1.2 GB` */
function size(bytes: number): string {
  if (!Number.isFinite(bytes)) return 'an unknown size';
  const [unit, per] = bytes >= 1e9 ? (['GB', 1e9] as const) : (['MB', 1e6] as const);
  return `${(bytes / per).toFixed(1)} ${unit}`;
}

/**
 * From this share of `maxclients` on there is a warning. A worker has two connections and one for each shard, and for a while
 * after a network fault twice as many.
 */
const CLIENTS_NEAR = 0.8;

function clientsFindings(info: Info): Finding[] {
  const { ok, warning } = createFindings('clients');
  const [now, most] = [numberIn(info, 'connected_clients'), numberIn(info, 'maxclients')];
  if (Number.isNaN(most)) return []; // Redis before version 7 does not report it
  const text = `${now} connected of maxclients ${most}`;
  return [
    now < most * CLIENTS_NEAR ? ok(text) : warning(text, 'raise maxclients: a worker keeps 3 connections or more'),
  ];
}

async function persistenceFindings(node: Redis, info: Info): Promise<Finding[]> {
  const { ok, warning, fault } = createFindings('persistence');
  const findings: Finding[] = [];
  const isOn = info.get('aof_enabled') === '1';
  if (isOn && info.get('aof_last_write_status') === 'err') {
    findings.push(
      fault('the last write to its append-only file failed', "look at its log and at its disk's free space"),
    );
  }
  if (isOn && info.get('aof_last_bgrewrite_status') === 'err') {
    findings.push(
      warning('the last rewrite of its append-only file failed', "look at its log and at its disk's free space"),
    );
  }
  if (info.get('rdb_last_bgsave_status') === 'err') {
    const advice =
      "look at its log and at its disk's free space: it may refuse all writes (MISCONF) until a snapshot succeeds";
    findings.push(fault('its last snapshot failed', advice));
  }
  if (!isOn) {
    const [, saves] = await settingOf(node, 'save');
    const text =
      saves === ''
        ? 'it has no append-only file and makes no snapshots: if it ends, all is lost, and recipients may get a burst'
        : 'it has no append-only file: if it ends, all since its last snapshot is lost, and recipients may get a burst';
    return [...findings, warning(text, 'set appendonly yes, and appendfsync everysec (docs/redis.md)')];
  }
  const [, sync] = await settingOf(node, 'appendfsync');
  if (sync === undefined) {
    const text = 'it has an append-only file; it does not let its user call CONFIG GET, so appendfsync is not known';
    return [...findings, warning(text, 'look yourself that it is everysec or always')];
  }
  if (sync === 'no') {
    const text = 'appendfsync is no: if its machine dies, about 30 s are lost';
    return [...findings, warning(text, 'set appendfsync everysec')];
  }
  return findings.length > 0 ? findings : [ok(`append-only file on, appendfsync ${sync}, last write ok`)];
}

/** The name and the value; empty if Redis's user has no right to call CONFIG GET. */
function settingOf(node: Redis, name: string): Promise<readonly string[]> {
  return node.config('GET', name).then(
    (reply) => reply,
    () => [],
  );
}

const HZ = 100;

function hzFinding(info: Info): Finding {
  const { ok, warning } = createFindings('hz');
  const hz = numberIn(info, 'configured_hz');
  if (hz >= HZ) return ok(`hz ${hz}`);
  const text = `hz is ${Number.isNaN(hz) ? 'not known' : hz}: the workers wake delayed notifications with commands of their own`;
  return warning(text, 'set hz 100: CONFIG SET hz 100, and in redis.conf');
}

const MOST_LAG_S = 10;

function replicaFindings(info: Info): Finding[] {
  const { ok, warning } = createFindings('replicas');
  const replicas = [...info].filter(([name]) => /^slave\d+$/.test(name)).map(([, value]) => value);
  if (replicas.length === 0) return [];
  const lags = replicas.map((value) => Number(/\blag=(-?\d+)/.exec(value)?.[1] ?? 0));
  const behind = replicas.filter((value, at) => !value.includes('state=online') || (lags[at] ?? 0) > MOST_LAG_S);
  if (behind.length > 0) {
    return [
      warning(
        `${behind.length} of ${replicas.length} replicas are behind`,
        'a failover to one of them would lose what it lacks',
      ),
    ];
  }
  // Redis reports this field only if min-replicas-to-write is set.
  if (info.has('min_slaves_good_slaves')) return [ok(`${replicas.length} keep up; min-replicas-to-write is set`)];
  const text = `${replicas.length} keep up; min-replicas-to-write is not set: a master that is cut off goes on taking writes`;
  return [warning(text, 'set min-replicas-to-write 1 and min-replicas-max-lag 10 (docs/redis.md)')];
}

function waitFindings(info: Info, { roles, waitReplicas }: RedisToCheck): Finding[] {
  if (waitReplicas === 0 || !roles.includes('limiter')) return [];
  const { ok, warning } = createFindings('wait');
  const online = [...info].filter(([name, value]) => /^slave\d+$/.test(name) && value.includes('state=online')).length;
  if (online >= waitReplicas) return [ok(`REDIS_WAIT_REPLICAS is ${waitReplicas}, and ${online} are connected`)];
  return [
    warning(
      `REDIS_WAIT_REPLICAS is ${waitReplicas}, and ${online} are connected: nothing is sent until there are more`,
      'connect more replicas, or lower REDIS_WAIT_REPLICAS (docs/redis.md)',
    ),
  ];
}

interface Timing {
  /** The median of the round trips. */
  readonly tookMs: number;
  readonly slowestMs: number;
  /** Redis's clock minus this machine's, computed from the fastest answer. */
  readonly offsetMs: number;
  /** By how much the offset may be wrong: half of the fastest answer's round trip. */
  readonly errorMs: number;
}

const SAMPLES = 9;

/** `0.3ms`, `42ms` */
function tripText(ms: number): string {
  return ms < 9.95 ? `${Math.max(0.1, Math.round(ms * 10) / 10)}ms` : span(ms);
}

async function measure(node: Redis): Promise<Timing> {
  const samples: { readonly tookMs: number; readonly offsetMs: number }[] = [];
  for (let taken = 0; taken < SAMPLES; taken++) {
    const [at, began] = [Date.now(), performance.now()];
    const [seconds, microseconds] = await node.time();
    const tookMs = performance.now() - began;
    const redisMs = Number(seconds) * 1_000 + Number(microseconds) / 1_000;
    samples.push({ tookMs, offsetMs: redisMs - (at + tookMs / 2) });
  }
  const byTime = samples.toSorted((a, b) => a.tookMs - b.tookMs);
  const [fastest, median, slowest] = [byTime[0], byTime[Math.floor(SAMPLES / 2)], byTime.at(-1)];
  const { offsetMs = 0, tookMs: fastestMs = 0 } = fastest ?? {};
  return { tookMs: median?.tookMs ?? 0, slowestMs: slowest?.tookMs ?? 0, offsetMs, errorMs: fastestMs / 2 };
}

/** From this round trip on there is a warning: round trips delay passes, and the limiter must answer in 2 s. */
const FAR_MS = 100;

function distanceFinding({ tookMs, slowestMs }: Timing): Finding {
  const { ok, warning } = createFindings('distance');
  const text = `${tripText(tookMs)} there and back, ${tripText(slowestMs)} at the most of ${SAMPLES} tries`;
  return tookMs < FAR_MS ? ok(text) : warning(text, 'run workers and Redis in one data centre');
}

const [APART_MS, FAR_APART_MS] = [1_000, 300_000];

/** Workers correct due times by the offset, but expiry and the age of credentials are measured on the machine's own clock. */
function clockFinding({ offsetMs }: Timing): Finding {
  const { ok, warning, fault } = createFindings('clock');
  const apart = Math.abs(offsetMs);
  if (apart < APART_MS) return ok(`this machine's clock is Redis's`);
  const text = `this machine's clock is ${span(apart)} ${offsetMs > 0 ? 'behind' : 'ahead of'} Redis's`;
  const advice = 'set the clocks of both machines, with NTP';
  return apart < FAR_APART_MS ? warning(text, advice) : fault(`${text}; providers refuse such credentials`, advice);
}

interface MasterClock extends Pick<Timing, 'offsetMs' | 'errorMs'> {
  /** `10.0.0.7:6379` */
  readonly where: string;
}

/** If the clocks of masters differ by no more than this, alerts are sent as exactly as with one master. */
const MASTERS_APART_MS = 10;

/** A worker estimates a single distance between its clock and Redis's, from the replies of all masters (limiter/redis/clock.ts). */
export function mastersClocks(clocks: readonly MasterClock[]): Finding[] {
  const byOffset = clocks.toSorted((a, b) => a.offsetMs - b.offsetMs);
  const [last, first] = [byOffset[0], byOffset.at(-1)];
  if (last === undefined || first === undefined || last === first) return [];
  const { ok, warning } = createFindings('clocks');
  const apartMs = first.offsetMs - last.offsetMs;
  if (apartMs - first.errorMs - last.errorMs <= MASTERS_APART_MS) return [ok("the masters' clocks agree")];
  const text = `the masters' clocks differ by ${span(apartMs)} (${first.where} is ahead of ${last.where})`;
  return [
    warning(
      `${text}: alerts may leave as much too early`,
      'set the clocks of these machines, with NTP (docs/limiter.md)',
    ),
  ];
}

async function scriptsFinding(node: Redis): Promise<Finding> {
  const { ok, fault } = createFindings('scripts');
  try {
    if (String(await node.eval("return redis.call('TIME')[1]", 0)).length > 5) return ok('it runs Lua scripts');
    return fault('a Lua script gave no time', 'use a server that runs Lua scripts as Redis does');
  } catch (error) {
    const reason = withoutCredentials(error instanceof Error ? error.message : String(error));
    return fault(`it runs no Lua scripts (${reason})`, 'let its user call EVAL, EVALSHA and TIME');
  }
}

async function clusterFindings(cluster: Cluster, { label }: RedisToCheck): Promise<Finding[]> {
  const { ok, fault } = createFindings(`${label} cluster`);
  const info = parseInfo(await cluster.cluster('INFO'));
  const [state, slots] = [info.get('cluster_state'), numberIn(info, 'cluster_slots_ok')];
  const text = `state ${state ?? 'not known'}, ${slots} of 16384 slots served by ${mastersOf(cluster).length} masters`;
  if (state === 'ok' && slots === 16_384) return [ok(text)];
  return [fault(text, 'give every slot a master that lives: redis-cli --cluster check')];
}
