import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** Worker processes under one roof: started together, stopped together, none left behind. */
export interface Replicas {
  readonly count: number;
  /** SIGTERM to each; resolves with their exit codes once all are gone. */
  stop(): Promise<(number | null)[]>;
}

export interface ReplicaOptions {
  readonly count: number;
  readonly env: Readonly<Record<string, string>>;
  /** Each log line of each worker. */
  readonly onLine?: (line: string) => void;
  /** Told when another one consumes. */
  readonly onReady?: (ready: number) => void;
}

const WORKER = fileURLToPath(new URL(`../../workers/notifications${extname(import.meta.url)}`, import.meta.url));

/** Starts `count` workers and resolves once all of them consume. They end with this process: it holds their IPC channel. */
export async function startReplicas({ count, env, onLine, onReady }: ReplicaOptions): Promise<Replicas> {
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, [WORKER], {
      env: { ...process.env, METRICS_PORT: '0', ...env },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    }),
  );
  let ready = 0;
  try {
    await Promise.all(
      children.map(async (child) => {
        await untilReady(child, onLine);
        onReady?.(++ready);
      }),
    );
  } catch (error) {
    for (const child of children) child.kill('SIGKILL');
    throw error;
  }
  return { count, stop: () => Promise.all(children.map(stop)) };
}

function untilReady(child: ChildProcess, onLine?: (line: string) => void): Promise<void> {
  if (child.stdout === null) throw new TypeError('a worker without an output');
  const lines = createInterface(child.stdout);
  return new Promise((resolve, reject) => {
    lines.on('line', (line) => {
      onLine?.(line);
      if (line.includes('"msg":"ready"')) resolve();
    });
    child.once('error', reject).once('exit', (code, signal) => {
      reject(new Error(`a worker ended before it was ready (${signal ?? `exit code ${code}`})`));
    });
  });
}

async function stop(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
  }
  return child.exitCode;
}
