import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { startEmbeddedRedis, type EmbeddedRedis } from '../sandbox/redis/embedded-redis.ts';
import type { NotificationInput } from '../src/notification/notification.ts';
import { JOB, QUEUE } from '../src/queue/names.ts';
import { createProducer, type Producer } from '../src/producer/producer.ts';

/** What all runs of a suite share. */
export interface Surroundings {
  readonly redisUrl: string;
  /** For logs. */
  readonly dir: string;
}

/** A Redis and a folder for logs, gone afterwards; `use` also gets the version of Redis. */
export async function withSurroundings<T>(
  say: (line: string) => void,
  use: (surroundings: Surroundings, redisVersion: string) => Promise<T>,
): Promise<T> {
  const server = await startEmbeddedRedis({ say, install: true });
  const dir = await mkdtemp(join(tmpdir(), 'pushpacer-bench-'));
  try {
    const info = await withClient(server.url, (redis) => redis.info('server'));
    const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown';
    return await use({ redisUrl: server.url, dir }, version);
  } finally {
    await server.close();
    await rm(dir, { recursive: true, force: true });
  }
}

/** Starts a replica of this Redis, and resolves when it is in step. */
export async function startReplica(masterUrl: string): Promise<EmbeddedRedis> {
  const { port } = new URL(masterUrl);
  const replica = await startEmbeddedRedis({ extraArgs: ['--replicaof', `127.0.0.1 ${port}`] });
  const isInStep = () => withClient(masterUrl, async (redis) => /state=online/.test(await redis.info('replication')));
  const deadline = performance.now() + IN_STEP_WITHIN_MS;
  while (!(await isInStep())) {
    if (performance.now() > deadline) throw new Error(`the replica was not in step within ${IN_STEP_WITHIN_MS} ms`);
    await sleep(POLL_MS);
  }
  return replica;
}

const IN_STEP_WITHIN_MS = 20_000;

/** A connection for the time of `use`. */
export async function withClient<T>(url: string, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url);
  return use(redis).finally(() => {
    redis.disconnect();
  });
}

export const PREFIX = '{bench}';
const POLL_MS = 50;

/** pushpacer's queue, to be filled for any worker. */
export interface BenchQueue {
  readonly connection: Redis;
  readonly queue: Queue;
  readonly producer: Producer;
  /** Adds all of them, by default through the producer; throws where one is refused. */
  add(notifications: readonly NotificationInput[], how?: How): Promise<void>;
  /** Resolves when no job waits, is delayed or under way, or after the limit. */
  settled(limitMs?: number): Promise<void>;
  close(): Promise<void>;
}

/** With pushpacer's producer, or as any client of BullMQ does, without a priority. */
export type How = 'producer' | 'plain';

export function openBenchQueue(redisUrl: string): BenchQueue {
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const producer = createProducer({ connection, prefix: PREFIX });
  const queue = new Queue(QUEUE, { connection, prefix: PREFIX });
  return {
    connection,
    queue,
    producer,
    async add(notifications, how = 'producer') {
      if (how === 'plain') {
        await queue.addBulk(notifications.map((data) => ({ name: JOB, data, opts: { jobId: data.id } })));
        return;
      }
      const answers = await producer.enqueueMany(notifications);
      const refused = answers.find(({ kind }) => kind !== 'added');
      if (refused !== undefined) throw new Error(`expected every notification to be added, found one ${refused.kind}`);
    },
    async settled(limitMs = Infinity) {
      const deadline = performance.now() + limitMs;
      while (performance.now() < deadline) {
        const counts = await queue.getJobCounts('wait', 'prioritized', 'delayed', 'active');
        if (Object.values(counts).every((count) => count === 0)) return;
        await sleep(POLL_MS);
      }
    },
    async close() {
      await producer.close();
      await queue.close();
      connection.disconnect();
    },
  };
}

/**
 * Bytes in Redis of what `fill` writes: keys, values, expiries and their share of the hash tables. It is the memory that FLUSHALL
 * frees in a Redis of its own, after all other clients have gone. (The growth before would also contain what Redis allocates at the
 * first use of a command.)
 */
export async function bytesOf(fill: (url: string) => Promise<void>): Promise<number> {
  const server = await startEmbeddedRedis();
  try {
    return await withClient(server.url, async (observer) => {
      await fill(server.url);
      while ((await clientsOf(observer)) > 1) await setImmediate(); // Redis frees a client's buffers once it has seen it go
      const filled = await bytesInUse(observer);
      await observer.flushall('SYNC');
      return filled - (await bytesInUse(observer));
    });
  } finally {
    await server.close();
  }
}

/** How many connections this Redis has. */
export async function clientsOf(redis: Redis): Promise<number> {
  return fieldOf(await redis.info('clients'), 'connected_clients');
}

async function bytesInUse(redis: Redis): Promise<number> {
  return fieldOf(await redis.info('memory'), 'used_memory');
}

/** What a Redis holds, and what it has done so far. */
export interface Usage {
  /** `used_memory`, without what waits for replicas that are behind. */
  readonly bytes: number;
  readonly cpuMs: number;
  /** What clients sent to it, and what it answered; without replication. */
  readonly inBytes: number;
  readonly outBytes: number;
  /** What each replica gets: with no replica it stays 0. */
  readonly replicatedBytes: number;
}

export async function usageOf(redis: Redis): Promise<Usage> {
  const info = await redis.info('everything');
  const of = (name: string): number => fieldOf(info, name);
  return {
    bytes: of('used_memory') - of('mem_clients_slaves'),
    cpuMs: 1_000 * (of('used_cpu_user') + of('used_cpu_sys')),
    inBytes: of('total_net_input_bytes') - of('total_net_repl_input_bytes'),
    outBytes: of('total_net_output_bytes') - of('total_net_repl_output_bytes'),
    replicatedBytes: of('master_repl_offset'),
  };
}

function fieldOf(info: string, name: string): number {
  return Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
}

/** What one command did, by `INFO commandstats`. */
interface CommandUse {
  readonly calls: number;
  /** Time inside Redis; that of a script, and of EXEC, includes the commands that it runs. */
  readonly micros: number;
}

/** By command, `evalsha` or `client|setinfo`. What scripts run is in it as well: Redis counts both alike. */
export type CommandStats = ReadonlyMap<string, CommandUse>;

export async function commandStats(redis: Redis): Promise<CommandStats> {
  const info = await redis.info('commandstats');
  const lines = info.matchAll(/^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm);
  return new Map(
    [...lines].map(([, name = '', calls, micros]) => [name, { calls: Number(calls), micros: Number(micros) }]),
  );
}

/** What was used between two looks, the most used first. */
export function usedBetween(before: CommandStats, after: CommandStats): CommandStats {
  const used = [...after].map(([name, { calls, micros }]): [string, CommandUse] => {
    const earlier = before.get(name) ?? { calls: 0, micros: 0 };
    return [name, { calls: calls - earlier.calls, micros: micros - earlier.micros }];
  });
  return new Map(used.filter(([, { calls }]) => calls > 0).sort(([, a], [, b]) => b.calls - a.calls));
}

/**
 * Counts the commands that clients send to these servers during `use`, without those of the bench's `own` connections. INFO has no
 * such number: `total_commands_processed`, the calls of `commandstats` and the `tot-cmds` of CLIENT LIST also count the commands
 * inside scripts. MONITOR shows every command with its source, which is `lua` for a script. It slows Redis down, so nothing is timed
 * meanwhile.
 */
export async function countCommands(
  urls: readonly string[],
  own: readonly Redis[],
  use: () => Promise<unknown>,
): Promise<number> {
  const addresses = own.map(async (each) => /\baddr=(\S+)/.exec(await each.client('INFO'))?.[1] ?? '');
  const leftOut = new Set(['lua', ...(await Promise.all(addresses))]);
  await using monitors = new AsyncDisposableStack();
  let count = 0;
  for (const url of urls) {
    const onCommand = (source: string): void => {
      if (!leftOut.has(source)) count += 1;
    };
    monitors.adopt(await monitorOf(url, onCommand), (socket) => void socket.destroy());
  }
  await use();
  return count;
}

/** A connection of its own: with ioredis's `monitor()`, a command that comes together with the answer to MONITOR is an error. */
async function monitorOf(url: string, onCommand: (source: string) => void): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  const lines = createInterface({ input: socket });
  lines.on('line', (line) => {
    const source = /^\+[\d.]+ \[\d+ (\S+)\]/.exec(line)?.[1]; // +1339518083.107412 [0 127.0.0.1:60866] "get" "x"
    if (source !== undefined) onCommand(source);
  });
  socket.write('MONITOR\r\n');
  await once(socket, 'data'); // +OK; rejects if there is no connection
  return socket;
}
