import { setTimeout as sleep } from 'node:timers/promises';
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';
import { startEmbeddedCluster } from '../../sandbox/redis/embedded-cluster.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { QUEUE, shardPrefixes } from '../../src/queue/names.ts';
import { createProducer, type Enqueued, type EnqueueInput } from '../../src/producer/producer.ts';
import { connectWorker, type Connection } from '../../src/redis/connection.ts';
import { counted } from '../../src/terminal/text.ts';
import { clientsOf, commandStats, PREFIX, usageOf, type Usage } from '../redis.ts';

/** Where notifications are measured. */
export interface Shape {
  /** 1: one Redis, no cluster. */
  readonly masters: number;
  /** Of each master. One Redis has none. */
  readonly replicas: number;
  readonly shards: number;
}

/** `3 masters, 1 replica each, 4 shards` */
export function nameOf({ masters, replicas, shards }: Shape): string {
  const where = masters === 1 ? 'one Redis' : `${masters} masters with ${counted(replicas, 'replica')}`;
  return `${where}, ${counted(shards, 'shard')}`;
}

/** A Redis or a cluster of its own, with the queues of its shards. */
export interface Stage {
  readonly shape: Shape;
  /** Points a worker at it. */
  readonly env: Readonly<Record<string, string>>;
  /** Not for blocking commands. */
  readonly connection: Connection;
  /** Of all masters together. */
  usage(): Promise<Usage>;
  /** How many connections each node has, without those to it that measure; masters first. */
  connections(): Promise<number[]>;
  /** How many scripts the masters have run for clients so far. */
  scripts(): Promise<number>;
  /** Adds all; throws where one is refused. */
  add(notifications: readonly EnqueueInput[]): Promise<void>;
  /** Adds a sequence of any length; throws where one is refused. `onDone`: called with how many are in the queue. */
  enqueue(notifications: Iterable<EnqueueInput>, onDone?: (done: number) => void): Promise<void>;
  /** How many jobs of all shards are in these states. */
  count(...states: State[]): Promise<number>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Resolves when none waits, is delayed or under way. Each look is a script on each shard, so look seldom. */
  settled(): Promise<void>;
  flush(): Promise<void>;
}

type State = 'prioritized' | 'wait' | 'delayed' | 'active' | 'completed';

const POLL_MS = 500;
/** A queue that stays as it is for so long ends the run. */
const STUCK_MS = 60_000;

/** Starts the servers, has them used, and ends them. */
export async function onStage<T>(shape: Shape, use: (stage: Stage) => Promise<T>): Promise<T> {
  await using parts = new AsyncDisposableStack();
  const isCluster = shape.masters > 1;
  const urls = await startServers(shape, parts);
  const url = urls.join();
  const connection = connectWorker({ redisUrl: url, cluster: isCluster });
  parts.defer(() => connection.disconnect());
  const queues = shardPrefixes(PREFIX, shape.shards).map((prefix) => new Queue(QUEUE, { connection, prefix }));
  const forAll = async (what: (queue: Queue) => Promise<void>): Promise<void> => {
    await Promise.all(queues.map(what));
  };
  parts.defer(() => forAll((queue) => queue.close()));
  await Promise.all(queues.map((queue) => queue.waitUntilReady()));
  const producer = parts.use(createProducer({ connection, prefix: PREFIX, shards: shape.shards }));
  const nodes = urls.map((each) => parts.adopt(new Redis(each), (node) => node.disconnect()));
  const masters = nodes.slice(0, shape.masters);

  const count = async (...states: State[]): Promise<number> => {
    const counts = await Promise.all(queues.map((queue) => queue.getJobCountByTypes(...states)));
    return counts.reduce((sum, each) => sum + each, 0);
  };
  const clients = (): Promise<number[]> => Promise.all(nodes.map(clientsOf));
  const own = await clients();

  return await use({
    shape,
    env: {
      REDIS_URL: url,
      REDIS_CLUSTER: String(isCluster),
      QUEUE_SHARDS: String(shape.shards),
      QUEUE_PREFIX: PREFIX,
    },
    connection,
    usage: async () => sumOf(await Promise.all(masters.map(usageOf))),
    connections: async () => (await clients()).map((found, index) => found - (own[index] ?? 0)),
    async scripts() {
      const all = await Promise.all(masters.map(commandStats));
      return all.reduce((sum, stats) => sum + (stats.get('evalsha')?.calls ?? 0), 0);
    },
    async add(notifications) {
      const answers = await producer.enqueueMany(notifications);
      const refused = answers.find(({ kind }) => kind !== 'added');
      if (refused !== undefined)
        throw new Error(`expected every notification to be added, found ${JSON.stringify(refused)}`);
    },
    async enqueue(notifications, onDone) {
      const onResult = (_result: Enqueued, index: number): void => onDone?.(index + 1);
      const { read, added } = await producer.enqueueMany(notifications, { onResult });
      if (added !== read) throw new Error(`expected ${read} notifications to be added, found ${added}`);
    },
    count,
    pause: () => forAll((queue) => queue.pause()),
    resume: () => forAll((queue) => queue.resume()),
    async settled() {
      let [latest, sinceMs] = [Infinity, performance.now()];
      for (;;) {
        const left = await count('wait', 'prioritized', 'delayed', 'active');
        if (left === 0) return;
        if (left < latest) [latest, sinceMs] = [left, performance.now()];
        if (performance.now() - sinceMs > STUCK_MS)
          throw new Error(`expected an empty queue, found ${left} jobs in it`);
        await sleep(POLL_MS);
      }
    },
    flush: async () => {
      await Promise.all(masters.map((node) => node.flushall('SYNC')));
    },
  });
}

/** The URLs of all nodes, masters first. */
async function startServers({ masters, replicas }: Shape, parts: AsyncDisposableStack): Promise<string[]> {
  if (masters === 1) return [parts.use(await startEmbeddedRedis()).url];
  const cluster = parts.use(await startEmbeddedCluster({ masters, replicas }));
  return cluster.nodes.map(({ url }) => url);
}

function sumOf(all: readonly Usage[]): Usage {
  const of = (what: keyof Usage): number => all.reduce((sum, each) => sum + each[what], 0);
  return {
    bytes: of('bytes'),
    cpuMs: of('cpuMs'),
    inBytes: of('inBytes'),
    outBytes: of('outBytes'),
    replicatedBytes: of('replicatedBytes'),
  };
}
