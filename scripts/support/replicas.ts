import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { CONFIG_VARIABLES } from '../../src/config/documentation.ts';

/** Several worker processes that are started together and stopped together. */
export interface Replicas {
  /** One for each worker, in the same order. */
  readonly processes: readonly ReplicaProcess[];
  /** How many are running. */
  alive(): number;
  /** SIGTERM to each; resolves with their exit codes once all are gone. */
  stop(): Promise<(number | null)[]>;
}

/** What a worker process is reached by. */
export interface ReplicaProcess {
  readonly pid: number;
  /** Where its pages are, such as `/metrics`; undefined with `METRICS_PORT=off`. */
  readonly url: string | undefined;
}

export interface ReplicaOptions {
  readonly count: number;
  readonly env: Readonly<Record<string, string>>;
}

const WORKER = fileURLToPath(new URL(`../../workers/notifications${extname(import.meta.url)}`, import.meta.url));

/** Starts `count` workers and resolves once all of them consume. They end with this process: it holds their IPC channel. */
export async function startReplicas({ count, env }: ReplicaOptions): Promise<Replicas> {
  const children = Array.from({ length: count }, () => spawnWorker(env, ['pipe', 'inherit']));
  try {
    const processes = await Promise.all(children.map(untilReady));
    return {
      processes,
      alive: () => children.filter(isAlive).length,
      stop: () => Promise.all(children.map(stop)),
    };
  } catch (error) {
    for (const child of children) child.kill('SIGKILL');
    throw error;
  }
}

/** One worker process, which ends with this one. `output`: where its standard output and standard error go. */
export function spawnWorker(
  env: ReplicaOptions['env'],
  output: readonly ['pipe' | number, 'inherit' | number],
): ChildProcess {
  // Variables in the caller's shell may be meant for another worker, so they are not passed on.
  const names = new Set(CONFIG_VARIABLES.map(({ name }) => name));
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !names.has(name)));
  return spawn(process.execPath, [WORKER], {
    env: { ...inherited, METRICS_PORT: '0', ...env },
    stdio: ['ignore', ...output, 'ipc'],
  });
}

export function isAlive({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

function untilReady(child: ChildProcess): Promise<ReplicaProcess> {
  if (child.stdout === null) throw new TypeError('expected a worker with piped standard output, found one without');
  const lines = createInterface(child.stdout);
  return new Promise((resolve, reject) => {
    lines.on('line', (line) => {
      if (!line.includes('"msg":"ready"')) return;
      const { metrics } = JSON.parse(line) as { readonly metrics?: string };
      resolve({ pid: child.pid ?? 0, url: metrics });
    });
    child.once('error', reject).once('exit', (code, signal) => {
      reject(new Error(`a worker ended before it was ready (${signal ?? `exit code ${code}`})`));
    });
  });
}

async function stop(child: ChildProcess): Promise<number | null> {
  if (isAlive(child)) {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
  }
  return child.exitCode;
}
