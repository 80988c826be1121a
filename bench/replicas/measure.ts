import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Cluster, Redis } from 'ioredis';
import { startProviders, type ProvidersProcess } from '../../demo/providers-process.ts';
import { startReplicas } from '../../demo/replicas.ts';
import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { startEmbeddedCluster } from '../../sandbox/redis/embedded-cluster.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { QUEUE, shardPrefixes } from '../../src/queue/names.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { makeAlert } from '../pacing/run.ts';
import { clientsOf, commandStats, PREFIX, usageOf } from '../redis.ts';

/** So many worker processes, each with a worker for every shard. */
export interface Layout {
  readonly workers: number;
  readonly shards: number;
  /** A cluster of three masters, or one Redis. */
  readonly isCluster: boolean;
}

/** How much is measured. */
export interface Amount {
  /** For how long the workers have nothing to do. */
  readonly idleMs: number;
  /** How many notifications are delivered afterwards; 0: none. */
  readonly notifications: number;
}

export interface Figures {
  /** To all servers of Redis, of one worker process. */
  readonly connections: number;
  readonly idle: Idle;
  /** Commands of one notification, without the idle load; NaN if none was delivered. */
  readonly commandsEach: number;
}

/** The load of workers that have nothing to do. A shard worker is what a process has for each shard. */
interface Idle {
  /** Scripts and waits for a job that one shard worker sends in a second: nearly all that it sends. */
  readonly sentPerSecond: number;
  /** All calls of `INFO commandstats`: with the commands that scripts run. */
  readonly callsPerSecond: number;
  /** Processor time of all servers of Redis over wall time. */
  readonly redisCpu: number;
}

/** Where the queue is. */
interface Servers extends AsyncDisposable {
  readonly url: string;
  /** For the bench itself: it is no worker's. */
  readonly connection: Redis | Cluster;
  /** One connection to each master. */
  readonly masters: readonly Redis[];
}

/** Starts everything, lets the workers idle, and then deliver. Every notification is for a recipient of its own, so none waits. */
export async function measureReplicas(layout: Layout, { idleMs, notifications }: Amount): Promise<Figures> {
  const { workers, shards, isCluster } = layout;
  await using parts = new AsyncDisposableStack();
  const servers = parts.use(await (isCluster ? openCluster() : openRedis()));
  const providers = parts.adopt(await startProviders({ latency: NO_LATENCY }), (it) => it.close());
  const { masters } = servers;
  const before = await clients(servers);
  const replicas = await startReplicas({
    count: workers,
    env: {
      ...providers.env,
      ...{ REDIS_URL: servers.url, REDIS_CLUSTER: String(isCluster), QUEUE_PREFIX: PREFIX },
      ...{ QUEUE_SHARDS: String(shards), LIMIT_RULES: '1000/1m', LIMIT_MIN_GAP: '0', METRICS_PORT: 'off' },
      WORKER_CONCURRENCY: String(JOBS_AT_ONCE),
    },
  });
  parts.defer(async () => {
    await replicas.stop();
  });
  const connections = ((await settledClients(servers)) - before) / workers;
  const [startedAt, cpuBefore, usedBefore] = [performance.now(), await cpuOf(masters), await usedOf(masters)];
  await sleep(idleMs);
  const [took, cpu, used] = [performance.now() - startedAt, await cpuOf(masters), await usedOf(masters)];
  const shardWorkers = workers * shards;
  const perSecond = (what: keyof Used): number => (1_000 * (used[what] - usedBefore[what])) / took;
  const idle = {
    sentPerSecond: perSecond('sent') / shardWorkers,
    callsPerSecond: perSecond('calls') / shardWorkers,
    redisCpu: (cpu - cpuBefore) / took,
  };
  if (notifications === 0) return { connections, idle, commandsEach: NaN };
  const work = { layout, servers, entries: providers.entries, idlePerSecond: perSecond('calls') };
  await deliver('warm', WARM_UP * shardWorkers, work);
  const batches: number[] = [];
  for (let batch = 0; batch < BATCHES; batch++) batches.push(await deliver(`work-${batch}`, notifications, work));
  return { connections, idle, commandsEach: Math.min(...batches) };
}

/** Of one process. Many more than its core can send within milliseconds would miss their slots, and be asked for anew. */
const JOBS_AT_ONCE = 4;
/** The least of so many counts: a busy machine makes sends miss their slots, which only adds commands. */
const BATCHES = 5;
/** So many for each shard worker before the measured ones, until V8 has compiled the code of a job. */
const WARM_UP = 50;
/** Connections of a start that are closed soon are gone when their number has stayed for so long, and the first writes of a worker done. */
const SETTLING_MS = 3_000;
const SETTLED_LIMIT_MS = 60_000;
const LOOK_MS = 100;
const DELIVERED_LIMIT_MS = 120_000;
/** After the last alert workers write its end. */
const ENDING_MS = 1_000;
const POLL_MS = 20;

interface Work {
  readonly layout: Layout;
  readonly servers: Servers;
  readonly entries: ProvidersProcess['entries'];
  /** Of all workers together. */
  readonly idlePerSecond: number;
}

/** The commands of one. All are in the queue before the first is taken, so the producer's are not among them. */
async function deliver(
  batch: string,
  count: number,
  { layout, servers, entries, idlePerSecond }: Work,
): Promise<number> {
  const { shards, isCluster } = layout;
  const { connection, url, masters } = servers;
  await using parts = new AsyncDisposableStack();
  const queues = shardPrefixes(PREFIX, shards).map((prefix) =>
    parts.adopt(new Queue(QUEUE, { connection, prefix }), (it) => it.close()),
  );
  await Promise.all(queues.map((queue) => queue.pause()));
  const producer = parts.use(createProducer({ redisUrl: url, cluster: isCluster, prefix: PREFIX, shards }));
  await producer.enqueueMany(
    Array.from({ length: count }, (_, index) => makeAlert(`${batch}-${index}`, `${batch}-${index}`)),
  );
  await sleep(SETTLING_MS); // by then every worker has seen that the queue is paused
  const [startedAt, before] = [performance.now(), await usedOf(masters)];
  await Promise.all(queues.map((queue) => queue.resume()));
  const all = entries.length + count;
  while (entries.length < all) {
    if (performance.now() - startedAt > DELIVERED_LIMIT_MS) throw new Error(`expected ${count} alerts in time`);
    await sleep(POLL_MS);
  }
  await sleep(ENDING_MS);
  const used = (await usedOf(masters)).calls - before.calls;
  return (used - (idlePerSecond * (performance.now() - startedAt)) / 1_000) / count;
}

interface Used {
  readonly sent: number;
  readonly calls: number;
}

/** So far, by all but the bench itself, which reads nothing else meanwhile. */
async function usedOf(masters: readonly Redis[]): Promise<Used> {
  const stats = (await Promise.all(masters.map(commandStats))).flatMap((each) => [...each]);
  const count = (isCounted: (name: string) => boolean): number =>
    sumOf(stats.filter(([name]) => isCounted(name)).map(([, { calls }]) => calls));
  return { sent: count((name) => SENT.includes(name)), calls: count((name) => name !== 'info') };
}

/** No script runs one of these. */
const SENT = ['eval', 'evalsha', 'bzpopmin'];

async function cpuOf(masters: readonly Redis[]): Promise<number> {
  return sumOf(await Promise.all(masters.map(async (master) => (await usageOf(master)).cpuMs)));
}

async function clients({ masters }: Servers): Promise<number> {
  return sumOf(await Promise.all(masters.map(clientsOf)));
}

/** How many there are, when that has not changed for a while. */
async function settledClients(servers: Servers): Promise<number> {
  const startedAt = performance.now();
  let [count, sinceMs] = [await clients(servers), startedAt];
  while (performance.now() - sinceMs < SETTLING_MS) {
    if (performance.now() - startedAt > SETTLED_LIMIT_MS) throw new Error('the number of connections does not settle');
    await sleep(LOOK_MS);
    const next = await clients(servers);
    if (next !== count) [count, sinceMs] = [next, performance.now()];
  }
  return count;
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

async function openRedis(): Promise<Servers> {
  const server = await startEmbeddedRedis();
  const connection = new Redis(server.url, { maxRetriesPerRequest: null });
  return {
    url: server.url,
    connection,
    masters: [connection],
    async [Symbol.asyncDispose]() {
      connection.disconnect();
      await server.close();
    },
  };
}

async function openCluster(): Promise<Servers> {
  const cluster = await startEmbeddedCluster({ masters: 3, replicas: 0 });
  const masters = cluster.nodes.map(({ url }) => new Redis(url));
  const nodes = cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port }));
  const connection = new Cluster(nodes, { redisOptions: { maxRetriesPerRequest: null } });
  // Its connections are there before the workers' are counted. It knows no nodes before its first answer.
  await connection.ping();
  for (const node of connection.nodes('master')) await node.ping();
  return {
    url: cluster.url,
    connection,
    masters,
    async [Symbol.asyncDispose]() {
      connection.disconnect();
      for (const master of masters) master.disconnect();
      await cluster.close();
    },
  };
}
