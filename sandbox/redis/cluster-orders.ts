/**
 * What an operator does to a cluster, and what fate does: a slot moves to another master while clients work, a master is killed.
 * Nodes are those of `startEmbeddedCluster`; every wait ends.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { ClusterNode } from './embedded-cluster.ts';

/** The nodes of a cluster, whatever started them. */
export interface ClusterNodes {
  readonly nodes: readonly ClusterNode[];
}

/** A node that has slots now. */
export interface Master {
  readonly node: ClusterNode;
  /** The cluster's name for it: 40 hexadecimal digits. */
  readonly id: string;
  /** First and last slot of each range. */
  readonly ranges: readonly (readonly [first: number, last: number])[];
}

export interface MoveOptions {
  /**
   * Called when half of the slot's keys have moved. The slot stays between its masters until it resolves: a command gets ASK, and one
   * with keys on both sides TRYAGAIN.
   */
  readonly betweenMasters?: () => Promise<unknown>;
  /** Default: 30,000. */
  readonly timeoutMs?: number;
}

const SLOTS = 16_384;
const TIMEOUT_MS = 30_000;
const LOOK_MS = 50;
/** How many keys move at once: as many as redis-cli moves. */
const KEYS_AT_ONCE = 10;

/** The masters as the node with the newest knowledge has them, in the order of their slots. */
export async function mastersOf({ nodes }: ClusterNodes, timeoutMs = TIMEOUT_MS): Promise<Master[]> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const views = await Promise.all(
      nodes.map((node) => withNode(node, (redis) => redis.call('CLUSTER', 'NODES') as Promise<string>).catch(() => '')),
    );
    const [newest = ''] = views.toSorted((a, b) => epochOf(b) - epochOf(a));
    if (newest !== '') return mastersIn(newest, nodes);
    if (performance.now() > deadline) throw new Error('no node of the cluster answers');
    await sleep(LOOK_MS);
  }
}

/** Each failover and each move of a slot has a higher one. 0 for no answer. */
function epochOf(view: string): number {
  return Math.max(0, ...view.split('\n').map((line) => Number(line.split(' ')[6] ?? 0)));
}

function mastersIn(text: string, nodes: readonly ClusterNode[]): Master[] {
  const masters = text.split('\n').flatMap((line): Master[] => {
    const [id = '', address = '', flags = '', , , , , , ...slots] = line.trim().split(' ');
    const port = Number(/:(\d+)@/.exec(address)?.[1]);
    const node = nodes.find((each) => each.port === port);
    const ranges = slots.flatMap((range): [number, number][] => {
      const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(range) ?? []; // others are slots on their way
      return first === undefined ? [] : [[Number(first), Number(last)]];
    });
    const isMaster = /\bmaster\b/.test(flags) && !/\bfail\b/.test(flags);
    return node !== undefined && isMaster && ranges.length > 0 ? [{ node, id, ranges }] : [];
  });
  return masters.toSorted((a, b) => (a.ranges[0]?.[0] ?? 0) - (b.ranges[0]?.[0] ?? 0));
}

/** The master that has this slot now. */
export async function masterOf(cluster: ClusterNodes, slot: number, timeoutMs = TIMEOUT_MS): Promise<Master> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const masters = await mastersOf(cluster, timeoutMs);
    const found = masters.find(({ ranges }) => ranges.some(([first, last]) => slot >= first && slot <= last));
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`slot ${slot} has no master`);
    await sleep(LOOK_MS);
  }
}

/** Moves a slot with its keys to another master while clients work, as `redis-cli --cluster reshard` does. Resolves with how many keys. */
export async function moveSlot(
  cluster: ClusterNodes,
  slot: number,
  to: ClusterNode,
  { betweenMasters, timeoutMs = TIMEOUT_MS }: MoveOptions = {},
): Promise<number> {
  const deadline = performance.now() + timeoutMs;
  const masters = await mastersOf(cluster, timeoutMs);
  const source = await masterOf(cluster, slot, timeoutMs);
  const target = masters.find(({ node }) => node.port === to.port);
  if (target === undefined) throw new Error(`${to.url} has no slots: it is no master`);
  if (target.id === source.id) throw new Error(`slot ${slot} is at ${to.url} already`);
  await withNode(to, (redis) => redis.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source.id));
  await withNode(source.node, (redis) => redis.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target.id));
  let moved = 0;
  const count = await withNode(source.node, (redis) => redis.cluster('COUNTKEYSINSLOT', slot));
  const half = Math.ceil(count / 2);
  const move = async (atMost: number): Promise<void> => {
    await withNode(source.node, async (redis) => {
      for (;;) {
        const keys = await redis.cluster('GETKEYSINSLOT', slot, Math.min(KEYS_AT_ONCE, atMost - moved));
        if (keys.length === 0) return;
        if (performance.now() > deadline) throw new Error(`slot ${slot} did not move within ${timeoutMs} ms`);
        await redis.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5_000, 'KEYS', ...keys);
        moved += keys.length;
        if (moved >= atMost) return;
      }
    });
  };
  if (betweenMasters !== undefined) {
    if (half > 0) await move(half);
    await betweenMasters();
  }
  await move(Infinity);
  // The new master first: then no moment has a slot without a master.
  for (const { node } of [target, source, ...masters.filter(({ id }) => id !== target.id && id !== source.id)]) {
    await withNode(node, (redis) => redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', target.id));
  }
  return moved;
}

/** Kills the master that has this slot now (SIGKILL). Resolves with it, when its process is gone. */
export async function killMasterOf(cluster: ClusterNodes, slot: number): Promise<ClusterNode> {
  const { node } = await masterOf(cluster, slot);
  process.kill(node.pid, 'SIGKILL');
  await node.ended;
  return node;
}

/** Resolves when each slot has a master that answers, and every node that answers knows it. At least `least` nodes must answer. */
export async function waitUntilOk(cluster: ClusterNodes, least = 1, timeoutMs = TIMEOUT_MS): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await isOk(cluster, least, timeoutMs))) {
    if (performance.now() > deadline) throw new Error(`the cluster was not whole within ${timeoutMs} ms`);
    await sleep(LOOK_MS);
  }
}

async function isOk(cluster: ClusterNodes, least: number, timeoutMs: number): Promise<boolean> {
  const states = new Map<ClusterNode, string>();
  const look = async (node: ClusterNode): Promise<void> => {
    const info = await withNode(node, (redis) => redis.call('CLUSTER', 'INFO') as Promise<string>).catch(() => '');
    if (info !== '') states.set(node, info);
  };
  await Promise.all(cluster.nodes.map(look));
  if (states.size < least || ![...states.values()].every((info) => /^cluster_state:ok/m.test(info))) return false;
  const masters = await mastersOf(cluster, timeoutMs);
  const slots = masters.flatMap(({ ranges }) => ranges.map(([first, last]) => last - first + 1));
  return masters.every(({ node }) => states.has(node)) && slots.reduce((sum, count) => sum + count, 0) === SLOTS;
}

const ANSWER_MS = 6_000;

/** A connection of its own for a few commands: a node may have been killed since the last ones. */
async function withNode<T>(node: ClusterNode, work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(node.url, {
    lazyConnect: true,
    retryStrategy: null,
    connectTimeout: ANSWER_MS,
    commandTimeout: ANSWER_MS,
    maxRetriesPerRequest: 0,
  });
  redis.on('error', () => undefined); // the command that failed says it
  try {
    await redis.connect();
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}
