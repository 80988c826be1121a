import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { InputError, optionFaults, type OptionNames } from '../../src/domain/faults.ts';
import { freePort, startEmbeddedRedis, type EmbeddedRedis, type EmbeddedRedisOptions } from './embedded-redis.ts';

const GUARDIAN = fileURLToPath(new URL('redis-guardian.sh', import.meta.url));
const SLOTS = 16_384;
const LOOK_MS = 50;

/** One server of an embedded cluster. */
export interface ClusterNode {
  /** `redis://127.0.0.1:41877`, without TLS in any case. */
  readonly url: string;
  /** `41877` */
  readonly port: number;
  /** Its process, for tests that stop or kill it. Another one after `restart`. */
  readonly pid: number;
  /** Resolves when the process has ended, whatever ended it. */
  readonly ended: Promise<void>;
  /** Starts the server again after it was killed: on the same port, with what it had written to its files. */
  restart(): Promise<void>;
}

/** A Redis Cluster on the loopback. It ends with `close`, or with this process, however that ends. */
export interface EmbeddedCluster extends AsyncDisposable {
  /** All nodes, comma-separated: `REDIS_URL` beside `REDIS_CLUSTER=true`. */
  readonly url: string;
  /** First those that began as masters, in the order of their slots, then the replicas in the same order. */
  readonly nodes: readonly ClusterNode[];
  /** Stops all servers and removes their folder. `await using` calls it by itself. */
  close(): Promise<void>;
}

/** How a cluster is started. Every option may be left out. */
export interface EmbeddedClusterOptions extends Pick<
  EmbeddedRedisOptions,
  'install' | 'say' | 'hz' | 'appendonly' | 'extraArgs' | 'startTimeoutMs'
> {
  /** How many masters share the slots, 1 to 100. Default: 3. */
  readonly masters?: number;
  /** How many replicas each master has, 0 to 5. Default: 1. */
  readonly replicas?: number;
  /** After so long without an answer a master counts as failed, and its replica takes over. Default: 2,000. */
  readonly nodeTimeoutMs?: number;
  /** The port of the first node; the others have the ports after it. Default: free ones. */
  readonly port?: number;
  /** Files with which the nodes speak TLS to clients and to each other. Then `url` begins with `rediss://`. Default: no TLS. */
  readonly tls?: ClusterTls;
}

/** Paths of PEM files. The certificate must be for 127.0.0.1, and for clients too: the nodes show it to each other. */
export interface ClusterTls {
  /** Of the authority that signed the certificate. */
  readonly caFile: string;
  /** The certificate of all nodes. */
  readonly certFile: string;
  /** Its private key. */
  readonly keyFile: string;
}

const OPTIONS: OptionNames<EmbeddedClusterOptions> = {
  ...{ install: true, say: true, hz: true, appendonly: true, extraArgs: true, startTimeoutMs: true },
  ...{ masters: true, replicas: true, nodeTimeoutMs: true, port: true, tls: true },
};
const MEANT = { nodes: 'masters', timeoutMs: 'nodeTimeoutMs' };

/**
 * Starts a Redis Cluster of its own on the loopback, for tests and development, and waits until every slot has its master and
 * every master its replicas. It needs nothing but a `redis-server` of version 7 (or a `valkey-server`) on the PATH.
 *
 * ```ts
 * await using cluster = await startEmbeddedCluster({ masters: 3, replicas: 1 });
 * ```
 *
 * Rejects with an Error if one of the servers does not answer, or the cluster does not form, within `startTimeoutMs` (default: 30,000).
 */
export async function startEmbeddedCluster(options: EmbeddedClusterOptions = {}): Promise<EmbeddedCluster> {
  const {
    masters = 3,
    replicas = 1,
    nodeTimeoutMs = 2_000,
    startTimeoutMs = 30_000,
    port,
    tls,
    ...serverOptions
  } = options;
  const faults = optionFaults(options, OPTIONS, '', MEANT);
  const count = (path: string, value: number, least: number, most: number): void => {
    if (Number.isInteger(value) && value >= least && value <= most) return;
    faults.push({ path, expected: `a whole number from ${least} to ${most}`, found: String(value) });
  };
  count('masters', masters, 1, 100);
  count('replicas', replicas, 0, 5);
  const size = masters * (1 + replicas);
  if (port !== undefined) count('port', port, 1, 65_536 - size);
  if (faults.length > 0) throw new InputError('unusable options', faults);

  await using starting = new AsyncDisposableStack();
  const folder = starting.adopt(await openFolder(), (it) => it.remove());
  const extraArgs = [
    ...['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf'],
    ...['--cluster-node-timeout', String(nodeTimeoutMs)],
    // A replica takes over although it was not connected lately: here the only alternative is no master at all.
    ...['--cluster-replica-validity-factor', '0', '--repl-diskless-sync-delay', '0'],
    ...(tls === undefined ? [] : tlsArgs(tls)),
    ...(options.extraArgs ?? []),
  ];
  // One after the other, so that the free ports differ, and so that only the first one may have to install the server.
  const nodes: StartedNode[] = [];
  starting.defer(async () => {
    await Promise.all(nodes.map((node) => node.close()));
  });
  for (let index = 0; index < size; index++) {
    const own = port === undefined ? {} : { port: port + index };
    nodes.push(
      await startNode(folder.path, { ...serverOptions, ...own, startTimeoutMs, extraArgs }, tls !== undefined),
    );
  }
  await form(nodes, masters, performance.now() + startTimeoutMs);
  const kept = starting.move();
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= kept.disposeAsync());
  return { url: nodes.map(({ clientUrl }) => clientUrl).join(','), nodes, close, [Symbol.asyncDispose]: close };
}

interface StartedNode extends ClusterNode {
  readonly busPort: number;
  /** Where clients connect: with TLS another port than that of `url`. */
  readonly clientUrl: string;
  close(): Promise<void>;
}

/** The port without TLS stays open: the nodes are started and formed over it. */
function tlsArgs({ caFile, certFile, keyFile }: ClusterTls): string[] {
  const files = ['--tls-ca-cert-file', caFile, '--tls-cert-file', certFile, '--tls-key-file', keyFile];
  return [...files, '--tls-auth-clients', 'no', '--tls-cluster', 'yes', '--tls-replication', 'yes'];
}

/** How many free ports are tried, in case another process takes one first. */
const PORT_TRIES = 5;

async function startNode(folder: string, options: EmbeddedRedisOptions, hasTls: boolean): Promise<StartedNode> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOnce(folder, options, hasTls);
    } catch (error) {
      const isTaken = error instanceof Error && /address already in use|^unusable options: port:/i.test(error.message);
      if (options.port !== undefined || tries === PORT_TRIES || !isTaken) throw error;
    }
  }
}

async function startOnce(folder: string, options: EmbeddedRedisOptions, hasTls: boolean): Promise<StartedNode> {
  const [port, busPort] = [options.port ?? (await freePort()), await freePort()];
  const dir = join(folder, String(port));
  await mkdir(dir, { recursive: true });
  const tlsPort = hasTls ? await freePort() : 0;
  const own = ['--cluster-port', String(busPort), ...(hasTls ? ['--tls-port', String(tlsPort)] : [])];
  const extraArgs = [...(options.extraArgs ?? []), ...own];
  const start = (): Promise<EmbeddedRedis> => startEmbeddedRedis({ ...options, port, dir, extraArgs });
  let server = await start();
  return {
    busPort,
    clientUrl: hasTls ? `rediss://127.0.0.1:${tlsPort}` : server.url,
    url: server.url,
    port,
    get pid() {
      return server.pid;
    },
    get ended() {
      return server.ended;
    },
    async restart() {
      await server.ended;
      server = await start();
    },
    close: () => server.close(),
  };
}

/** Gives the slots to the masters, in equal and contiguous ranges, and each replica to its master. */
async function form(nodes: readonly StartedNode[], masters: number, deadline: number): Promise<void> {
  const clients = nodes.map(({ port }) => new Redis({ host: '127.0.0.1', port, maxRetriesPerRequest: 1 }));
  for (const client of clients) client.on('error', () => undefined); // the command that failed says it
  const pairs = nodes.map((node, index) => ({ node, client: clients[index] as Redis, index }));
  const [first] = clients;
  try {
    for (const { client, index } of pairs) {
      await client.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1);
      if (index >= masters) continue;
      const [from, until] = [index, index + 1].map((at) => Math.round((at * SLOTS) / masters));
      await client.call('CLUSTER', 'ADDSLOTSRANGE', Number(from), Number(until) - 1);
    }
    for (const { node } of pairs.slice(1)) await first?.call('CLUSTER', 'MEET', '127.0.0.1', node.port, node.busPort);
    const ids = await Promise.all(clients.map((client) => client.call('CLUSTER', 'MYID') as Promise<string>));
    for (const { client, index } of pairs.slice(masters)) {
      const master = ids[index % masters] ?? '';
      await until(deadline, 'a replica does not know its master', async () =>
        (await nodesText(client)).includes(master),
      );
      await client.call('CLUSTER', 'REPLICATE', master);
    }
    for (const { client, index } of pairs) {
      await until(deadline, 'the cluster did not form', async () => isFormed(client, nodes.length));
      if (index < masters) continue;
      await until(deadline, 'a replica is not in step', async () =>
        /^master_link_status:up/m.test(await client.info('replication')),
      );
    }
  } finally {
    for (const client of clients) client.disconnect();
  }
}

async function isFormed(client: Redis, count: number): Promise<boolean> {
  const info = (await client.call('CLUSTER', 'INFO')) as string;
  const lines = (await nodesText(client)).trim().split('\n');
  const replicas = lines.filter((line) => /\bslave\b/.test(line)).length;
  const masters = lines.filter((line) => /\bmaster\b/.test(line) && /-\d+$/.test(line.trim())).length;
  return /^cluster_state:ok/m.test(info) && lines.length === count && masters + replicas === count;
}

async function nodesText(client: Redis): Promise<string> {
  return (await client.call('CLUSTER', 'NODES')) as string;
}

async function until(deadline: number, problem: string, isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`${problem} in time`);
    await sleep(LOOK_MS);
  }
}

/** A temporary folder that is removed at the end of this process too, even by SIGKILL. */
async function openFolder(): Promise<{ readonly path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'pushpacer-cluster-'));
  const guardian = spawn('sh', [GUARDIAN, path, 'sleep', '2147483647'], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const ended = once(guardian, 'close');
  return {
    path,
    async remove() {
      guardian.stdin.end();
      await ended;
    },
  };
}
