import { Cluster, type Redis } from 'ioredis';
import { within } from '../domain/time.ts';

/** Makes two things of ioredis safe, for a cluster that has just been opened and for those that it is duplicated to. Returns it. */
export function steady<T extends Cluster>(cluster: T): T {
  const open = new Set<Redis>();
  cluster.on('+node', (node: Redis) => {
    open.add(node);
    node.once('end', () => open.delete(node));
    handleAsking(node);
  });
  connectAfterClose(cluster, () => open.size > 0);
  const duplicate: (...args: Parameters<Cluster['duplicate']>) => Cluster = cluster.duplicate.bind(cluster);
  cluster.duplicate = (...args) => steady(duplicate(...args)); // BullMQ makes its connection for blocking commands so
  return cluster;
}

/**
 * While a slot moves, ioredis sends a command on to the new master after an ASKING, and does not look at the answer to that. If the
 * connection closes first, that rejection, which nobody handles, would end the process. The command itself is sent again.
 */
function handleAsking(node: Redis): void {
  const asking = node.asking.bind(node);
  node.asking = () => {
    const answer = asking();
    answer.catch(() => undefined);
    return answer;
  };
}

/**
 * A cluster that is opened anew while it closes never emits `end`. BullMQ waits for that when a worker is closed, and opens the connection
 * for blocking commands anew if it asks for a job at that moment: the worker was never closed.
 */
function connectAfterClose(cluster: Cluster, isOpen: () => boolean): void {
  const connect = cluster.connect.bind(cluster);
  cluster.connect = async () => {
    const isClosing = cluster.status === 'disconnecting' && isOpen();
    if (isClosing) await new Promise((resolve) => cluster.once('close', resolve));
    await connect();
  };
}

const MASTERS_CONNECTED = new WeakMap<Cluster, Promise<unknown>>();
/** A master that loads its data is asked for as long as that takes: the others do not wait for it. */
const MASTERS_WAIT_MS = 1_000;

/**
 * Resolves when the connections to the masters of a cluster are ready, or have failed, or took too long; never later than `mostMs`, and
 * at once if that was so before. ioredis connects to a node with the first command for it. Without an offline queue it holds back the
 * commands that follow until that connection is ready, and then sends them 100 ms later, in any order. This waits once for each
 * connection of ours: the order is not kept at a master that comes back, or takes the place of another one, later.
 */
export async function whenMastersConnected(connection: Redis | Cluster, mostMs: number): Promise<void> {
  if (!(connection instanceof Cluster) || connection.options.enableOfflineQueue !== false) return;
  const masters = (): Promise<unknown> => Promise.all(connection.nodes('master').map(connected));
  const connecting = MASTERS_CONNECTED.get(connection) ?? within(masters(), MASTERS_WAIT_MS);
  MASTERS_CONNECTED.set(connection, connecting);
  await within(connecting, mostMs);
}

async function connected(node: Redis): Promise<void> {
  if (node.status === 'wait') void node.connect().catch(() => undefined);
  if (node.status === 'ready' || node.status === 'end') return;
  await new Promise((resolve) => node.once('ready', resolve).once('end', resolve));
}
