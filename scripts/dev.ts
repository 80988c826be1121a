import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isLoopback } from '../api/serve.ts';
import { startApi } from '../api/start.ts';
import { addToken, SCOPES } from '../api/tokens.ts';
import { startConsole } from '../console/start.ts';
import { serveControl } from '../sandbox/control.ts';
import { entryLine } from '../sandbox/journal.ts';
import { openRedis, startEmbeddedRedis } from '../sandbox/redis/embedded-redis.ts';
import { startSandbox } from '../sandbox/sandbox.ts';
import { loadApiConfig, loadConfig, loadConsoleConfig } from '../src/config/config.ts';
import { faultOf, InputError } from '../src/domain/faults.ts';
import type { Environment } from '../src/environment/values.ts';
import { createLog } from '../src/observe/log.ts';
import {
  CommandError,
  createCommand,
  createStopSignals,
  integer,
  printJson,
  runCommand,
  UsageError,
} from '../src/terminal/command.ts';
import { startFollowing } from '../workers/follow.ts';
import { findParent, whenGone } from '../workers/parent.ts';
import { addressesOf, pageText, type Running } from './dev/page.ts';

const HOST = '127.0.0.1';
/** For each server: its port if no flag says otherwise and the port is free, and what listens there. */
const SERVERS = {
  redis: { port: 6379, of: 'the Redis' },
  api: { port: 8620, of: 'the HTTP API' },
  console: { port: 8621, of: 'the console' },
  control: { port: 8622, of: "the sandbox's control endpoint: /answers, /journal" },
  metrics: { port: 9464, of: "the worker's pages: /metrics, /healthz, /readyz" },
} as const;
type ServerName = keyof typeof SERVERS;
const SERVER_NAMES = Object.keys(SERVERS) as ServerName[];
/** How many requests the sandbox's journal keeps, and how many stories of notifications are kept. */
const KEEP = 10_000;

const HELP = `
Ports are fixed where they are free, so that addresses stay the same; where one is taken, the page that is printed has another. All
listen on ${HOST} alone. Nothing is kept: what waits is gone at the end. Of the variables, those of the limits hold (LIMIT_RULES,
LIMIT_MIN_GAP, LIMITS_FILE, …), QUEUE_PREFIX, QUEUE_SHARDS and LOG_LEVEL (warn); no other is read, so credentials of a real
provider are not used.`;

type Flags = Readonly<Partial<Record<`${ServerName}Port`, number>>> & {
  readonly redisUrl?: string;
  readonly allowRemoteRedis?: true;
  readonly quiet?: true;
  readonly json?: true;
};

/** `pushpacer dev`: everything that an app needs for its development, in this process and one Redis. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand(
    'dev',
    'Runs all that an app needs on this machine, until it is interrupted: a Redis, the sandbox (servers that answer as APNs, FCM and a ' +
      'push service for browsers), a worker, the HTTP API and the console. Prints where they are, and two requests to try.',
  );
  for (const name of SERVER_NAMES) {
    const { port, of } = SERVERS[name];
    const does = `the port of ${of} (default: ${port}, or a free one if it is taken)`;
    command.option(`${portFlag(name)} <port>`, does, integer(portFlag(name), 0, 65_535, 'a port'));
  }
  command
    .option(
      '--redis-url <url>',
      'a Redis that runs already; the worker takes what waits in it, and sends it to the sandbox',
    )
    .option('--allow-remote-redis', 'that Redis may be on another machine')
    .option('--quiet', 'no line for each request that the sandbox gets')
    .option('--json', 'the addresses, the token and the two requests as one JSON object')
    .addHelpText('after', HELP)
    .action((flags: Flags) => serve(flags));
  await runCommand(command, argv);
}

function portFlag(name: ServerName): `--${ServerName}-port` {
  return `--${name}-port`;
}

async function serve(flags: Flags): Promise<void> {
  const ports = await choosePorts(flags);
  await using parts = new AsyncDisposableStack();
  const redis = parts.adopt(await redisFor(flags, ports.redis), (it) => it.close());
  const { signal } = stopping();
  const running = await start({ flags, ports, redis, signal }, parts).catch((error: unknown): undefined => {
    if (!signal.aborted) throw error;
  });
  if (running === undefined) return;
  if (flags.json === true) printJson(addressesOf(running));
  else process.stdout.write(pageText(running));
  if (flags.quiet !== true) process.stderr.write('\nEach request that the sandbox gets:\n');
  if (!signal.aborted) await Promise.race([once(signal, 'abort'), redis.ended]);
  if (!signal.aborted) throw new CommandError('the Redis server ended by itself');
  process.stderr.write('stopping\n');
}

interface Start {
  readonly flags: Flags;
  readonly ports: Readonly<Record<ServerName, number>>;
  readonly redis: DevRedis;
  readonly signal: AbortSignal;
}

/** Starts the other parts. `parts` closes them, the last one first, so that the worker can finish its sends. */
async function start({ flags, ports, redis, signal }: Start, parts: AsyncDisposableStack): Promise<Running> {
  const folder = await mkdtemp(join(tmpdir(), 'pushpacer-dev-'));
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const sandbox = parts.adopt(await startSandbox({ dir: join(folder, 'sandbox'), keep: KEEP }), (it) => it.close());
  const control = parts.adopt(await serveControl(sandbox, { port: ports.control, host: HOST }), (it) => it.close());
  if (flags.quiet !== true) sandbox.journal.on((entry) => void process.stderr.write(`${entryLine(entry)}\n`));

  const tokensFile = join(folder, 'api-tokens.json');
  const token = await addToken(tokensFile, { name: 'dev', scopes: [...SCOPES], maxWaiting: undefined });
  const env = {
    ...chosenVariables(process.env),
    ...sandbox.env(),
    ...{ REDIS_URL: redis.url, METRICS_PORT: String(ports.metrics), HISTORY_MAX: String(KEEP) },
    ...{ API_PORT: String(ports.api), CONSOLE_PORT: String(ports.console), API_TOKENS_FILE: tokensFile },
    CONSOLE_SHOW_TEXTS: 'true',
  };
  const config = loadConfig(env);
  const log = createLog(config.logLevel, { write: (line) => void process.stderr.write(line) });
  const worker = parts.adopt(await startFollowing(config, log, { env, signal }), (it) => it.stop());
  const api = parts.adopt(await startApi(loadApiConfig(env), log), (it) => it.close());
  const console = parts.adopt(await startConsole(loadConsoleConfig(env), log), (it) => it.close());
  await Promise.all([api.ready, console.ready]);
  return {
    ...{ api: api.url, console: console.url, metrics: worker.url ?? '', sandbox: `http://${HOST}:${control.port}` },
    ...{ apns: sandbox.apns.url, fcm: sandbox.fcm.url, webpush: sandbox.webpush.url },
    ...{ redis: withoutPassword(redis.url), isOwnRedis: flags.redisUrl === undefined },
    defaultRedisPort: SERVERS.redis.port,
    ...{ token, policy: config.policy, hasProxy: hasProxy(process.env) },
  };
}

/** The variables of the user's shell that are used here. Others, such as credentials, may be meant for a real worker. */
function chosenVariables(env: Environment): Environment {
  const chosen = Object.entries(env).filter(([name]) => /^(LIMITS?_|QUEUE_|LOG_LEVEL$)/.test(name));
  return { LOG_LEVEL: 'warn', ...Object.fromEntries(chosen) };
}

function withoutPassword(url: string): string {
  return Object.assign(new URL(url), { username: '', password: '' }).href;
}

/** Whether curl would ask a proxy for an address of this machine. */
function hasProxy(env: Environment): boolean {
  return ['http_proxy', 'all_proxy', 'ALL_PROXY'].some((name) => (env[name] ?? '') !== '');
}

/** For each server: the port of its flag, its fixed port, or 0, which means any free port. */
async function choosePorts(flags: Flags): Promise<Readonly<Record<ServerName, number>>> {
  if (flags.redisUrl !== undefined && flags.redisPort !== undefined) {
    throw new UsageError('--redis-port: expected none with --redis-url, since no Redis is started');
  }
  const chosen = await Promise.all(
    SERVER_NAMES.map(async (name) => {
      const asked = flags[`${name}Port`];
      const port = asked ?? SERVERS[name].port;
      if (port === 0 || (await isFree(port))) return [name, port] as const;
      if (asked === undefined) return [name, 0] as const;
      throw new InputError('cannot listen', [
        faultOf(portFlag(name), `a port that no other program uses on ${HOST}`, port),
      ]);
    }),
  );
  return Object.fromEntries(chosen) as Record<ServerName, number>;
}

/**
 * Whether no server answers on the port. This finds a server that listens on all addresses too: some systems would let a second
 * server listen on one of these addresses.
 */
function isFree(port: number): Promise<boolean> {
  const socket = connect(port, HOST);
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(false)).once('error', () => resolve(true));
  }).finally(() => socket.destroy()) as Promise<boolean>;
}

interface DevRedis {
  readonly url: string;
  /** Resolves when a Redis that was started here has ended. */
  readonly ended: Promise<unknown>;
  close(): Promise<void>;
}

const REDIS_FLAG = '--redis-url';

/**
 * The Redis of the flag; without the flag, a new Redis that this command starts. Errors name the flag, not the variable
 * REDIS_URL, which is not read here.
 */
async function redisFor({ redisUrl: url, redisPort, allowRemoteRedis }: Flags, port: number): Promise<DevRedis> {
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  try {
    if (url === undefined) return await startOwnRedis(port, redisPort === undefined, say);
    const hostname = URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, '') : HOST; // openRedis refuses what is no URL
    if (!isLoopback(hostname) && allowRemoteRedis !== true) {
      const expected =
        'a Redis on this machine, or --allow-remote-redis: what waits in it goes to the sandbox, and to nobody else';
      throw new InputError('no Redis', [faultOf(REDIS_FLAG, expected, hostname)]);
    }
    return { ...(await openRedis({ url, name: REDIS_FLAG, say })), ended: new Promise(() => undefined) };
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    const faults = error.faults.map((fault) => ({ ...fault, path: FLAG_OF.get(fault.path) ?? fault.path }));
    throw new InputError('no Redis', faults);
  }
}

const FLAG_OF: ReadonlyMap<string, string> = new Map([
  ['REDIS_URL', REDIS_FLAG],
  ['port', portFlag('redis')],
]);

/**
 * Uses another port if `port` is taken and no flag asked for it. The port may have become taken just now: where Redis has to be
 * installed, Debian's package starts a server at Redis's own port.
 */
async function startOwnRedis(port: number, mayMove: boolean, say: (line: string) => void): Promise<DevRedis> {
  const start = (at: number) => startEmbeddedRedis({ say, install: true, ...(at !== 0 && { port: at }) });
  return start(port).catch((error: unknown) => {
    const isTaken = error instanceof InputError && error.faults.some(({ path }) => path === 'port');
    if (isTaken && mayMove) return start(0);
    throw error;
  });
}

/** Aborts at SIGINT, SIGTERM or SIGHUP, or when this process's parent has ended. A later signal ends this process at once. */
function stopping(): AbortController {
  const controller = new AbortController();
  const signals = createStopSignals();
  const stop = (): void => {
    if (signals() === 'later') process.exit(1);
    controller.abort();
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, stop);
  process.once('disconnect', stop);
  if (process.send !== undefined && !process.connected) stop(); // the parent has gone already
  whenGone(findParent(process.env), stop);
  return controller;
}

if (import.meta.main) await main(process.argv.slice(2));
