import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { arrivalInstant } from '../sandbox/journal.ts';
import { masterOf, mastersOf, moveSlot, waitUntilOk, type Master } from '../sandbox/redis/cluster-orders.ts';
import { startEmbeddedCluster, type ClusterNode } from '../sandbox/redis/embedded-cluster.ts';
import { crc16, shardPrefixes, SLOTS } from '../src/queue/names.ts';
import { recipientKeys } from '../src/limiter/redis/keys.ts';

/** A master that was killed, and what its successor knows. Instants are epoch milliseconds. */
export interface Failover {
  /** Just before SIGKILL. */
  readonly at: number;
  /** When its replica answered as master. */
  readonly until: number;
  /**
   * The successor has every write that was answered before this instant: of the writes of a clock, one each few milliseconds, it is the
   * last one that the successor has. Later writes may be lost.
   */
  readonly keptUntil: number;
  /** The replica was cut off for so long before the kill, as it turned out: a busy machine takes longer than the plan says. */
  readonly lagMs: number;
  /** First and last slot of each range that the killed master had. */
  readonly ranges: Master['ranges'];
}

/** A cluster of which masters can be killed, and slots moved. */
export interface ChaosCluster {
  /** All nodes, comma-separated. */
  readonly url: string;
  /** Every process that was ever started. */
  readonly pids: readonly number[];
  /**
   * Kills the master with this slot, after its replica was cut off for `lagMs`. Calls `witness` with the slots just before both, and
   * `successor` with the new master at once. Resolves when the killed one is back as a replica, and all replicas are in step.
   */
  failOver(options: FailOverOptions): Promise<void>;
  /** Moves a slot to the master that comes after its own one. Resolves with the number of keys that moved. */
  moveSlot(slot: number): Promise<number>;
  /** The master that has this slot answers no client for a while. */
  pause(slot: number, ms: number): Promise<void>;
  /** Each node closes the connections of all clients. */
  cutClients(): Promise<void>;
  close(): Promise<void>;
}

interface FailOverOptions {
  readonly slot: number;
  readonly lagMs: number;
  /** How long the killed one stays away, when its replica has taken over. */
  readonly awayMs: number;
  readonly witness: (ranges: Master['ranges']) => Promise<unknown>;
  /** Called while the replica is cut off: it knows nothing of what is written then. */
  readonly whileCut?: () => Promise<unknown>;
  readonly successor: (failover: Failover, master: Redis) => Promise<unknown>;
}

export const SHARDS = 4;
/** Longer than a process of this run gets no processor on a busy machine: else a replica takes over without a fault. */
const NODE_TIMEOUT_MS = 2_500;
/** For everything that the cluster does by itself. */
const PATIENCE_MS = 90_000;
const LOOK_MS = 20;
const TICK_MS = 5;
/** The clock's writes begin so long before the replica is cut off, so that it has some of them. */
const TICKS_BEFORE_MS = 150;

export async function startChaosCluster(say: (line: string) => void): Promise<ChaosCluster> {
  say('starting a cluster: 3 masters, 3 replicas');
  const cluster = await startEmbeddedCluster({
    ...{ nodeTimeoutMs: NODE_TIMEOUT_MS, startTimeoutMs: PATIENCE_MS, say, install: true },
  });
  const pids = cluster.nodes.map(({ pid }) => pid);
  const { nodes } = cluster;

  let last: Promise<unknown> = Promise.resolve();
  /** One order after the other: to cut all clients would cut those of a failover, which takes seconds on a busy machine. */
  function inTurn<T>(order: () => Promise<T>): Promise<T> {
    const mine = last.then(order);
    last = mine.catch(() => undefined);
    return mine;
  }

  async function failOver({ slot, lagMs, awayMs, witness, whileCut, successor }: FailOverOptions): Promise<void> {
    const { node, ranges } = await masterOf(cluster, slot, PATIENCE_MS);
    const replica = await replicaOf(nodes, node);
    await using links = await openLinks(node, replica);
    const { master, replica: heir } = links;
    const ticks = startTicks(master, `tick:{${tagIn(ranges)}}`);
    await sleep(TICKS_BEFORE_MS);
    if ((await master.wait(1, PATIENCE_MS)) < 1) throw new Error(`the replica of ${node.url} is not in step`);
    await witness(ranges); // before the replica is cut off: on a busy machine it takes seconds, and these would all be lost
    const cutAt = arrivalInstant();
    if (lagMs > 0) {
      await heir.config('SET', 'masterauth', 'refused'); // so that it cannot connect again
      await master.call('CLIENT', 'KILL', 'TYPE', 'replica');
      await sleep(lagMs);
      await whileCut?.();
    }
    const at = arrivalInstant();
    process.kill(node.pid, 'SIGKILL');
    await node.ended;
    ticks.stop();
    await eventually('no replica took over', async () => (await masterOf(cluster, slot)).node.port === replica.port);
    await eventually('the new master takes no writes', async () => {
      await heir.set(ticks.afterKey, '1');
      return true;
    });
    const keptUntil = Number(await heir.get(ticks.key));
    const cutMs = lagMs === 0 ? 0 : Math.round(at - cutAt);
    await successor({ at, until: arrivalInstant(), keptUntil, lagMs: cutMs, ranges }, heir);
    if (lagMs > 0) await heir.config('SET', 'masterauth', '');
    await sleep(awayMs);
    await node.restart();
    pids.push(node.pid);
    await whole();
  }

  /** All nodes answer, and each replica has what its master has. */
  async function whole(): Promise<void> {
    await waitUntilOk(cluster, nodes.length, PATIENCE_MS);
    for (const { node } of await mastersOf(cluster)) {
      await eventually('a replica is not in step', () => isFollowed(node));
    }
  }

  async function moveOne(slot: number): Promise<number> {
    const masters = await mastersOf(cluster);
    const { node } = await masterOf(cluster, slot);
    const next = masters[(masters.findIndex((each) => each.node.port === node.port) + 1) % masters.length];
    if (next === undefined) throw new Error('the cluster has no master');
    const moved = await moveSlot(cluster, slot, next.node, {
      betweenMasters: () => sleep(BETWEEN_MASTERS_MS),
      timeoutMs: PATIENCE_MS,
    });
    await whole();
    return moved;
  }

  async function cutClients(): Promise<void> {
    await Promise.all(nodes.map((node) => withNode(node, (redis) => redis.call('CLIENT', 'KILL', 'TYPE', 'normal'))));
  }

  return {
    url: cluster.url,
    pids,
    failOver: (options) => inTurn(() => failOver(options)),
    moveSlot: (slot) => inTurn(() => moveOne(slot)),
    async pause(slot, ms) {
      const { node } = await masterOf(cluster, slot);
      await withNode(node, (redis) => redis.call('CLIENT', 'PAUSE', ms, 'ALL'));
    },
    cutClients: () => inTurn(cutClients),
    close: () => cluster.close(),
  };
}

/** A slot stays half moved for this long: clients get ASK, and scripts with keys at both masters TRYAGAIN. */
const BETWEEN_MASTERS_MS = 300;

/** `6021` for `{pushpacer-chaos-1-0}:notifications`. */
export function slotOfShard(prefix: string, shard: number): number {
  const tag = shardPrefixes(prefix, SHARDS)[shard] ?? prefix;
  return slotOf(tag);
}

/** Where the limiter's keys of a recipient lie. */
export function slotOfRecipient(recipientId: string): number {
  return slotOf(recipientKeys('', recipientId).sent);
}

/** Of a key with a tag, or with none. */
function slotOf(key: string): number {
  return crc16(/\{(.+?)\}/.exec(key)?.[1] ?? key) % SLOTS;
}

/** A text whose slot is one of these. */
function tagIn(ranges: Master['ranges']): string {
  for (let number = 0; ; number += 1) {
    const slot = slotOf(`tick-${number}`);
    if (ranges.some(([first, last]) => slot >= first && slot <= last)) return `tick-${number}`;
  }
}

/** Writes the time until it is stopped, or until the connection breaks. */
function startTicks(master: Redis, key: string): { readonly key: string; readonly afterKey: string; stop(): void } {
  let isOver = false;
  const write = async (): Promise<void> => {
    while (!isOver) {
      await master.set(key, String(arrivalInstant()));
      await sleep(TICK_MS);
    }
  };
  void write().catch(() => undefined); // the master was killed
  return { key, afterKey: `${key}:after`, stop: () => void (isOver = true) };
}

async function replicaOf(nodes: readonly ClusterNode[], master: ClusterNode): Promise<ClusterNode> {
  for (const node of nodes) {
    const info = await withNode(node, (redis) => redis.info('replication'));
    if (info.includes('role:slave') && info.includes(`master_port:${master.port}`)) return node;
  }
  throw new Error(`${master.url} has no replica`);
}

async function isFollowed(master: ClusterNode): Promise<boolean> {
  return /^slave0:.*state=online/m.test(await withNode(master, (redis) => redis.info('replication')));
}

/** Resolves with what `work` does, again and again until it succeeds: on a busy machine a try to connect may fail. */
async function persist<T>(problem: string, work: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await work();
    } catch (cause) {
      if (performance.now() > deadline) throw new Error(`${problem} within ${PATIENCE_MS / 1_000} s`, { cause });
    }
    await sleep(LOOK_MS);
  }
}

function eventually(problem: string, isSo: () => Promise<boolean>): Promise<void> {
  return persist(problem, async () => {
    if (!(await isSo())) throw new Error(problem);
  });
}

interface Links extends AsyncDisposable {
  readonly master: Redis;
  readonly replica: Redis;
}

async function openLinks(master: ClusterNode, replica: ClusterNode): Promise<Links> {
  const opened = [connectNode(master), connectNode(replica)] as const;
  await Promise.all(opened.map((redis) => persist('a node did not answer', () => redis.connect())));
  return {
    master: opened[0],
    replica: opened[1],
    [Symbol.asyncDispose]: () => {
      for (const redis of opened) redis.disconnect();
      return Promise.resolve();
    },
  };
}

function withNode<T>(node: ClusterNode, work: (redis: Redis) => Promise<T>): Promise<T> {
  return persist(`${node.url} did not answer`, async () => {
    const redis = connectNode(node);
    try {
      await redis.connect();
      return await work(redis);
    } finally {
      redis.disconnect();
    }
  });
}

function connectNode({ url }: ClusterNode): Redis {
  const options = { lazyConnect: true, retryStrategy: null, maxRetriesPerRequest: 0, showFriendlyErrorStack: true };
  const redis = new Redis(url, options);
  return redis.on('error', () => undefined); // the command that failed says it
}
