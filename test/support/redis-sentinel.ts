import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { expect, onTestFinished } from 'vitest';
import { type EmbeddedRedis, freePort } from '../../sandbox/redis/embedded-redis.ts';
import { redisServer, thisMachine } from '../../sandbox/redis/redis-server.ts';
import { eventually } from './fault-bench.ts';
import { ownRedis } from './own-redis.ts';
import { temporaryFolder } from './program.ts';
import { connectRedis } from './redis.ts';

/** What the Sentinel calls the group. */
export const GROUP = 'mymaster';
export const PASSWORDS = { servers: 'of-servers', sentinels: 'of-sentinels' };
const GUARDIAN = fileURLToPath(new URL('../../sandbox/redis/redis-guardian.sh', import.meta.url));

export interface SentinelGroupOptions {
  /** How many Sentinels. Default: 1. */
  readonly sentinels?: number;
  /** How many replicas. Default: 1. */
  readonly replicas?: number;
  /** Default: 1,000. */
  readonly downAfterMs?: number;
  /** More options of each redis-server: `['--min-replicas-to-write', '1']`. */
  readonly extraArgs?: readonly string[];
}

/** A master, its replicas, and Sentinels of which most must agree; all ask for passwords. */
export interface SentinelGroup {
  readonly master: EmbeddedRedis;
  /** The variables that lead there. */
  readonly env: Readonly<Record<string, string>>;
  /** The first of them. */
  readonly replica: EmbeddedRedis;
  /** To the first Sentinel. */
  readonly sentinel: Redis;
  /** To whoever is the master; outlives a failover. */
  readonly connection: Redis;
}

/** Starts all of them on the loopback, and resolves once the Sentinels would fail over. */
export async function openSentinelGroup({
  sentinels: count = 1,
  replicas: replicaCount = 1,
  downAfterMs = 1_000,
  extraArgs = [],
}: SentinelGroupOptions = {}): Promise<SentinelGroup> {
  const master = await ownRedis({ extraArgs });
  const replica = await ownReplica(master.port, extraArgs);
  const replicas = [replica];
  while (replicas.length < replicaCount) replicas.push(await ownReplica(master.port, extraArgs));
  for (const { url } of [...replicas, master]) {
    const redis = connectRedis(url);
    await redis.config('SET', 'masterauth', PASSWORDS.servers);
    await redis.config('SET', 'requirepass', PASSWORDS.servers);
    redis.disconnect();
  }
  const ports: number[] = [];
  while (ports.length < count) ports.push(await startSentinel(master.port, Math.floor(count / 2) + 1, downAfterMs));
  const [port = 0] = ports;
  const sentinel = new Redis({ host: '127.0.0.1', port, password: PASSWORDS.sentinels, enableReadyCheck: false });
  const sentinels = ports.map((each) => ({ host: '127.0.0.1', port: each }));
  const connection = new Redis({
    ...{ sentinels, name: GROUP, password: PASSWORDS.servers, sentinelPassword: PASSWORDS.sentinels },
    ...{ maxRetriesPerRequest: null, sentinelRetryStrategy: () => 100, retryStrategy: () => 100 },
  });
  for (const each of [sentinel, connection]) each.on('error', () => undefined); // refused until it listens; killed later
  onTestFinished(() => {
    for (const each of [sentinel, connection]) each.disconnect();
  });
  await eventually(async () => {
    const known = (await sentinel.call('SENTINEL', 'REPLICAS', GROUP)) as string[][];
    const links = known.map((each) => each[each.indexOf('master-link-status') + 1]);
    expect(links).toEqual(replicas.map(() => 'ok'));
    expect(await sentinel.call('SENTINEL', 'SENTINELS', GROUP)).toHaveLength(count - 1);
  });
  const env = {
    REDIS_URL: ports.map((each) => `redis://:${PASSWORDS.servers}@127.0.0.1:${each}`).join(','),
    REDIS_SENTINEL_NAME: GROUP,
    REDIS_SENTINEL_PASSWORD: PASSWORDS.sentinels,
  };
  return { master, replica, env, sentinel, connection };
}

async function ownReplica(masterPort: number, extraArgs: readonly string[]): Promise<EmbeddedRedis> {
  return ownRedis({ extraArgs: ['--replicaof', `127.0.0.1 ${masterPort}`, ...extraArgs] });
}

/** Its port. It ends with the test, and with this process, however that ends. */
async function startSentinel(masterPort: number, quorum: number, downAfterMs: number): Promise<number> {
  const port = await freePort();
  const dir = await temporaryFolder();
  const file = join(dir, 'sentinel.conf');
  const lines = [
    ...[`port ${port}`, 'bind 127.0.0.1', `dir ${dir}`, `requirepass ${PASSWORDS.sentinels}`],
    `sentinel monitor ${GROUP} 127.0.0.1 ${masterPort} ${quorum}`,
    `sentinel auth-pass ${GROUP} ${PASSWORDS.servers}`,
    `sentinel down-after-milliseconds ${GROUP} ${downAfterMs}`,
    `sentinel failover-timeout ${GROUP} 5000`,
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  const program = await redisServer(() => undefined, thisMachine(), true);
  const guardian = spawn('sh', [GUARDIAN, '', program, file, '--sentinel'], {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { ...process.env, LC_ALL: 'C' },
  });
  const ended = once(guardian, 'close');
  onTestFinished(async () => {
    guardian.stdin.end();
    await ended;
  });
  const client = new Redis({ host: '127.0.0.1', port, password: PASSWORDS.sentinels, enableReadyCheck: false });
  client.on('error', () => undefined); // refused until it listens
  const answers = client.ping().then(
    () => true,
    () => false,
  );
  const isThere = await Promise.race([answers, ended.then(() => false)]);
  client.disconnect();
  // Another program took the port in the meantime.
  return isThere ? port : startSentinel(masterPort, quorum, downAfterMs);
}
