import { mkdir } from 'node:fs/promises';
import { startEmbeddedCluster } from '../sandbox/redis/embedded-cluster.ts';
import { startEmbeddedRedis } from '../sandbox/redis/embedded-redis.ts';
import { InputError } from '../src/domain/faults.ts';
import {
  CommandError,
  createCommand,
  integer,
  printJson,
  runCommand,
  untilStopped,
  UsageError,
} from '../src/terminal/command.ts';

interface Flags {
  readonly port?: number;
  readonly hz: number;
  readonly dir?: string;
  readonly cluster?: true;
  readonly json?: true;
}

/** `npm run redis`: an embedded Redis in the foreground, for development. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('redis', 'Runs a Redis on the loopback until it is interrupted, and prints its URL.')
    .option('--port <port>', 'the port to listen on (default: a free one)', integer('--port', 1, 65_535))
    .option('--hz <n>', "turns of the server's loop a second", integer('--hz', 1, 500), 100)
    .option('--dir <folder>', 'keep an append-only file there (default: keep nothing)')
    .option('--cluster', 'a Redis Cluster of 3 masters and 3 replicas; with --port, it has that port and the next five')
    .option('--json', 'the URL as one JSON object: url, port; of a cluster: url, ports, cluster')
    .action((flags: Flags) => serve(flags));
  await runCommand(command, argv);
}

/** The Redis server or cluster that was started. */
interface Started {
  /** The lines to print. */
  readonly environment: Readonly<Record<string, string>>;
  readonly json: object;
  /** Resolves when none of its servers runs any more. */
  readonly ended: Promise<unknown>;
  close(): Promise<void>;
}

async function serve({ json, ...flags }: Flags): Promise<void> {
  if (flags.cluster && flags.dir !== undefined) {
    throw new UsageError('--dir: expected none with --cluster, which keeps nothing');
  }
  const redis = await (flags.cluster ? startCluster(flags) : startOne(flags)).catch((error: unknown): never => {
    if (error instanceof InputError && error.faults.some(({ path }) => path === 'port')) {
      throw new InputError(
        'cannot listen',
        error.faults.map((fault) => ({ ...fault, path: '--port' })),
      );
    }
    throw new CommandError(error instanceof Error ? error.message : String(error));
  });
  // The listeners are added before the address is printed: its reader may send the signal at once.
  const asked = untilStopped().then(() => true);
  if (!flags.cluster && flags.dir === undefined) process.stderr.write(KEEPS_NOTHING);
  if (json) printJson(redis.json);
  else for (const [name, value] of Object.entries(redis.environment)) process.stdout.write(`${name}=${value}\n`);
  const wasAsked = await Promise.race([asked, redis.ended.then(() => false)]);
  await redis.close();
  if (!wasAsked) throw new CommandError('the Redis server ended by itself');
}

const KEEPS_NOTHING =
  'Note: it keeps all in memory alone: what waits in it is gone when it ends. With --dir FOLDER it is kept.\n';

const serverOptions = ({ hz, port }: Flags) => ({
  say: (line: string) => void process.stderr.write(`${line}\n`),
  install: true,
  hz,
  ...(port === undefined ? {} : { port }),
});

async function startOne(flags: Flags): Promise<Started> {
  const { dir } = flags;
  if (dir !== undefined) await mkdir(dir, { recursive: true });
  const kept = dir === undefined ? {} : { dir, appendonly: true };
  const server = await startEmbeddedRedis({ ...serverOptions(flags), ...kept });
  const { url, port, ended } = server;
  return { environment: { REDIS_URL: url }, json: { url, port }, ended, close: () => server.close() };
}

/** A master that is killed is replaced, so the cluster works while any node runs. */
async function startCluster(flags: Flags): Promise<Started> {
  const cluster = await startEmbeddedCluster(serverOptions(flags));
  const { url, nodes } = cluster;
  return {
    environment: { REDIS_URL: url, REDIS_CLUSTER: 'true' },
    json: { url, ports: nodes.map(({ port }) => port), cluster: true },
    ended: Promise.all(nodes.map(({ ended }) => ended)),
    close: () => cluster.close(),
  };
}

if (import.meta.main) await main(process.argv.slice(2));
