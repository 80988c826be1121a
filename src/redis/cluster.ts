import { Cluster, type Redis } from 'ioredis';
import { within } from '../domain/time.ts';

/** Corrects two faults of ioredis, for this newly opened cluster and for its duplicates. Returns the cluster. */
export function steady<T extends Cluster>(cluster: T): T {
  const open = new Set<Redis>();
  cluster.on('+node', (node: Redis) => {
    open.add(node);
    node.once('end', () => open.delete(node));
    handleAsking(node);
  });
  connectAfterClose(cluster, () => open.size > 0);
  const duplicate: (...args: Parameters<Cluster['duplicate']>) => Cluster = cluster.duplicate.bind(cluster);
  cluster.duplicate = (...args) => steady(duplicate(...args)); // BullMQ makes its connection for blocking commands in this way
  return cluster;
}

/**
 * While a hash slot moves, ioredis sends a command on to the new master after an ASKING, and does not look at the answer to the
 * ASKING. If the connection closes first, the ASKING rejects, and that unhandled rejection would end the process. The command
 * itself is sent again.
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
 * A cluster that is opened again while it closes never emits `end`. BullMQ waits for `end` when a worker is closed, but if it
 * asks for a job at that moment, it opens the connection for blocking commands again: the worker would never be closed.
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
/** The longest wait for one master: while a master loads its data, commands for the others do not wait for it. */
const MASTERS_WAIT_MS = 1_000;

/**
 * Resolves when the connections to all masters of a cluster are ready, have failed or took too long, at the latest after
 * `mostMs`. ioredis connects to a node with the first command for it. Without an offline queue it holds back the next commands
 * until that connection is ready, and sends them 100 ms later, in any order. This function waits only once for each connection:
 * if a master comes back or is replaced later, the order is not kept.
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
