import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { InputError, optionFaults, type OptionNames } from '../../src/domain/faults.ts';
import { redisServer, thisMachine } from './redis-server.ts';

const GUARDIAN = fileURLToPath(new URL('redis-guardian.sh', import.meta.url));
/** How many free ports are tried, in case another process takes the port first; one is nearly always enough. */
const PORT_TRIES = 5;
/** How long a server with a folder of its own may take to write its files before it is killed. */
const CLOSE_GRACE_MS = 3_000;
/** How long to wait for the last output of a server that failed to start. */
const LAST_WORDS_MS = 500;
const OUTPUT_LINES = 20;

/** A Redis server on the loopback that this process started. It ends with `close`, or with this process, however that ends. */
export interface EmbeddedRedis extends AsyncDisposable {
  /** `redis://127.0.0.1:41877` */
  readonly url: string;
  /** `41877` */
  readonly port: number;
  /** The server's own process, for tests that stop or kill it. */
  readonly pid: number;
  /** Resolves when the server has ended, whatever ended it. */
  readonly ended: Promise<void>;
  /** Stops the server and removes a temporary folder. `await using` calls it by itself. */
  close(): Promise<void>;
}

/** How a Redis is started. Every option may be left out. */
export interface EmbeddedRedisOptions {
  /**
   * Whether Debian's package `redis-server` may be installed with apt-get, if the PATH has no server and this user is root.
   * Default: false, and then there has to be a `redis-server` or `valkey-server` on the PATH.
   */
  readonly install?: boolean;
  /** Called with a line for each step that takes long or changes the machine. */
  readonly say?: (line: string) => void;
  /** Redis's `hz`. Default: 100, so that BullMQ's delayed jobs wake within 10 ms (Redis's own default is 10). */
  readonly hz?: number;
  /** Keep an append-only file, so that a restart on the same `dir` has every write. */
  readonly appendonly?: boolean;
  /** Default: a free port. */
  readonly port?: number;
  /** A folder that stays after `close`. Default: a temporary one, which `close` removes. */
  readonly dir?: string;
  /** More options of redis-server: `['--cluster-enabled', 'yes']`. */
  readonly extraArgs?: readonly string[];
  /** How long it may take until the server answers. Default: 10,000. */
  readonly startTimeoutMs?: number;
}

const OPTIONS: OptionNames<EmbeddedRedisOptions> = {
  ...{ install: true, say: true, hz: true, appendonly: true, port: true, dir: true, extraArgs: true },
  ...{ startTimeoutMs: true },
};
const MEANT = { aof: 'appendonly', args: 'extraArgs', timeoutMs: 'startTimeoutMs', log: 'say' };

/**
 * Starts a Redis of its own on the loopback, for tests and development, and waits until it answers. It needs a `redis-server`
 * or `valkey-server` on the PATH.
 *
 * ```ts
 * await using redis = await startEmbeddedRedis();
 * ```
 *
 * Rejects with an InputError if an option does not exist, if another program uses the port, or if there is no server (it says how to
 * install one), and with an Error that has the server's last output if it does not answer.
 */
export async function startEmbeddedRedis(options: EmbeddedRedisOptions = {}): Promise<EmbeddedRedis> {
  const faults = optionFaults(options, OPTIONS, '', MEANT);
  if (faults.length > 0) throw new InputError('unusable options', faults);
  const { say = () => undefined, install = false } = options;
  const program = await redisServer(say, thisMachine(), install);
  for (let tries = 1; ; tries += 1) {
    const port = options.port ?? (await freePort());
    const started = await start(program, port, options);
    if (!('problem' in started)) return started;
    const wasPortTaken = /address already in use/i.test(started.output);
    if (options.port !== undefined && new RegExp(`:${port}: .*address already in use`, 'i').test(started.output)) {
      const expected = 'a port that no other program uses on 127.0.0.1';
      throw new InputError('unusable options', [{ path: 'port', expected, found: String(port) }]);
    }
    if (options.port !== undefined || tries === PORT_TRIES || !wasPortTaken) {
      throw new Error(`${program} on port ${port} ${started.problem}; its last output:\n${started.output}`);
    }
  }
}

interface Failed {
  readonly problem: string;
  readonly output: string;
}

async function start(program: string, port: number, options: EmbeddedRedisOptions): Promise<EmbeddedRedis | Failed> {
  const ownDir = options.dir === undefined ? await mkdtemp(join(tmpdir(), 'pushpacer-redis-')) : '';
  const guardian = spawn('sh', [GUARDIAN, ownDir, program, ...serverArgs(port, ownDir, options)], {
    detached: true, // Ctrl-C in the terminal must not end the server: this process still needs it while it drains
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, LC_ALL: 'C' }, // Redis refuses to start under a locale that is not installed
  });
  const ended = once(guardian, 'close').then(() => undefined);
  const output: string[] = [];
  const pid = firstPid(guardian, output);
  const problem = await untilItAnswers(port, pid, ended, options.startTimeoutMs ?? 10_000);
  const kill = async (): Promise<void> => {
    guardian.stdin.end();
    await ended;
  };
  if (problem !== undefined) {
    await Promise.race([ended, setTimeout(LAST_WORDS_MS)]);
    await kill();
    return { problem, output: output.join('\n') };
  }
  const serverPid = await pid;
  const close = async (): Promise<void> => {
    if (ownDir === '' && guardian.exitCode === null) await endGently(serverPid, ended);
    await kill();
  };
  return { url: `redis://127.0.0.1:${port}`, port, pid: serverPid, ended, close, [Symbol.asyncDispose]: close };
}

/** SIGTERM lets a server finish writing its append-only file. If it hangs, the guardian kills it afterwards. */
async function endGently(pid: number, ended: Promise<void>): Promise<void> {
  try {
    process.kill(pid, 'SIGTERM');
  } catch {
    return; // it has just ended
  }
  await Promise.race([ended, setTimeout(CLOSE_GRACE_MS, undefined, { ref: false })]);
}

function serverArgs(port: number, ownDir: string, options: EmbeddedRedisOptions): string[] {
  const settings = {
    port,
    bind: '127.0.0.1',
    dir: options.dir ?? ownDir,
    hz: options.hz ?? 100,
    appendonly: options.appendonly === true ? 'yes' : 'no',
    save: '',
    'maxmemory-policy': 'noeviction',
  };
  return [
    ...Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]),
    ...(options.extraArgs ?? []),
  ];
}

/** Collects the last lines of output, and resolves with the server's process id, which the guardian prints first. */
function firstPid(guardian: ChildProcess, output: string[]): Promise<number> {
  return new Promise((resolve) => {
    for (const stream of [guardian.stdout, guardian.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on('line', (line) => {
        const pid = /^pid (\d+)$/.exec(line)?.[1];
        if (pid !== undefined) resolve(Number(pid));
        else output.splice(0, output.length, ...[...output, line].slice(-OUTPUT_LINES));
      });
    }
  });
}

/** Waits for the answer of the server with this `pid`, not of another one on the same port. Undefined, or what is wrong. */
async function untilItAnswers(
  port: number,
  pid: Promise<number>,
  ended: Promise<void>,
  timeoutMs: number,
): Promise<string | undefined> {
  const probe = new Redis({ host: '127.0.0.1', port, maxRetriesPerRequest: null, retryStrategy: () => POLL_MS });
  probe.on('error', () => undefined); // refused until the server listens
  const timer = new AbortController();
  try {
    return await Promise.race([
      ended.then(() => 'ended before it answered'),
      setTimeout(timeoutMs, `did not answer within ${timeoutMs} ms`, { signal: timer.signal }),
      whoAnswers(probe).then(async (answering) =>
        answering === (await pid) ? undefined : 'found another server on its port',
      ),
    ]);
  } catch (error) {
    return `was answered with ${String(error)}`;
  } finally {
    timer.abort();
    probe.disconnect();
  }
}

/** The process id of the server that answers, once it does not load data: its own file, or its master's as a replica. */
async function whoAnswers(probe: Redis): Promise<number> {
  while (!(await isLoaded(probe))) await setTimeout(POLL_MS);
  return Number(/^process_id:(\d+)/m.exec(await probe.info('server'))?.[1]);
}

async function isLoaded(probe: Redis): Promise<boolean> {
  try {
    await probe.ping();
    return true;
  } catch (error) {
    if (String(error).includes('LOADING')) return false;
    throw error;
  }
}

const POLL_MS = 20;
const ANSWER_TIMEOUT_MS = 5_000;

/** A Redis to work on: the caller's own, or an embedded one. */
export interface OpenRedis {
  readonly url: string;
  /** True: it was started here, is empty, and ends with `close`. False: it was given, and `close` leaves it as it is. */
  readonly isEmbedded: boolean;
  close(): Promise<void>;
}

export interface OpenRedisOptions {
  /** `REDIS_URL` of one node. If it is left out or empty, an embedded Redis is started. */
  readonly url?: string | undefined;
  /** The variable or the flag that has the URL, for errors. Default: `REDIS_URL`. */
  readonly name?: string;
  readonly say: (line: string) => void;
}

/** The given Redis, after it has answered, or an embedded one. Rejects with an InputError if neither is possible. */
export async function openRedis({ url, name = 'REDIS_URL', say }: OpenRedisOptions): Promise<OpenRedis> {
  if (url === undefined || url === '') {
    const redis = await startEmbeddedRedis({ say, install: true });
    return { url: redis.url, isEmbedded: true, close: () => redis.close() };
  }
  const refusal = await refusalOf(url);
  if (refusal !== undefined) {
    const expected = `the URL of a Redis that answers (without ${name} one is started here)`;
    throw new InputError('no Redis', [{ path: name, expected, found: refusal }]);
  }
  return { url, isEmbedded: false, close: () => Promise.resolve() };
}

/** Why a Redis does not answer, without its URL, which may contain a password; `undefined` if it answers. */
async function refusalOf(url: string): Promise<string | undefined> {
  if (!/^rediss?:\/\//.test(url)) return 'something that does not begin with redis:// or rediss://';
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: ANSWER_TIMEOUT_MS,
    commandTimeout: ANSWER_TIMEOUT_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: null,
  });
  let lastError: Error | undefined;
  redis.on('error', (error: Error) => (lastError = error));
  try {
    await redis.connect();
    await redis.ping();
    return undefined;
  } catch (error) {
    return described(lastError ?? (error as Error));
  } finally {
    redis.disconnect();
  }
}

/** The client's words for an answer that is none of Redis's, and Redis's own for a refusal, explain the protocol. */
function described({ message }: Error): string {
  const code = /\b(NOAUTH|WRONGPASS)\b/.exec(message)?.[0];
  if (code !== undefined) return `one that refuses the credentials (${code})`;
  return message.startsWith('Unknown RESP type') ? 'a server that is no Redis' : message;
}

/** A port of the loopback that nobody listens on at this moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
