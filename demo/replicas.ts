import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { CONFIG_VARIABLES } from '../src/config/variables.ts';
import { WorkerDelays } from './delays.ts';

/** Several worker processes that are started together and stopped together. */
export interface Replicas {
  /** One for each worker, in the same order. */
  readonly processes: readonly ReplicaProcess[];
  /** How many are running. */
  alive(): number;
  /** Their delays so far, from their logs. */
  readonly delays: WorkerDelays;
  /** How late their wake-ups were so far, from the pages of those that answer. */
  lateness(): Promise<Lateness>;
  /** SIGTERM to each; resolves with their exit codes once all are gone. */
  stop(): Promise<(number | null)[]>;
}

/** How late notifications that waited for their slots came back to a worker, as the workers count it. */
export interface Lateness {
  /** How many came back later than the limiter's late tolerance. */
  readonly lateWakes: number;
  /** The latest of all, in milliseconds. */
  readonly mostLateMs: number;
}

/** What a worker process is reached by. */
interface ReplicaProcess {
  readonly pid: number;
  /** Where its pages are, such as `/metrics`; undefined with `METRICS_PORT=off`. */
  readonly url: string | undefined;
}

interface ReplicaOptions {
  readonly count: number;
  readonly env: Readonly<Record<string, string>>;
}

const WORKER = fileURLToPath(new URL(`../workers/notifications${extname(import.meta.url)}`, import.meta.url));

/** Makes a worker log when it stood still. */
export const DELAYS = new URL(`worker-delays${extname(import.meta.url)}`, import.meta.url).href;

/** Starts `count` workers and resolves once all of them consume. They end with this process, because that closes their IPC channel. */
export async function startReplicas({ count, env }: ReplicaOptions): Promise<Replicas> {
  const children = Array.from({ length: count }, () => spawnWorker(env, ['pipe', 'inherit']));
  const delays = new WorkerDelays();
  try {
    const processes = await Promise.all(
      children.map((child, index) => untilReady(child, (line) => delays.note(String(index), line))),
    );
    return {
      processes,
      delays,
      alive: () => children.filter(isAlive).length,
      lateness: async () => latenessOf(await Promise.all(processes.map(({ url }) => readPage(url)))),
      stop: () => Promise.all(children.map(stop)),
    };
  } catch (error) {
    for (const child of children) child.kill('SIGKILL');
    throw error;
  }
}

/**
 * One worker process, which ends with this one. `output`: where its standard output and standard error go.
 * `logsStandstills`: its log says when it stood still. `program`: the worker of another version.
 */
export function spawnWorker(
  env: ReplicaOptions['env'],
  output: readonly ['pipe' | number, 'inherit' | number],
  logsStandstills = true,
  program = WORKER,
): ChildProcess {
  // Variables in the caller's shell may be meant for another worker, so they are not passed on.
  const names = new Set(CONFIG_VARIABLES.map(({ name }) => name));
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !names.has(name)));
  return spawn(process.execPath, [...(logsStandstills ? ['--import', DELAYS] : []), program], {
    env: { ...inherited, METRICS_PORT: '0', ...env },
    stdio: ['ignore', ...output, 'ipc'],
  });
}

export function isAlive({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode === null && signalCode === null;
}

/** The address of a worker's pages, from the log line that says that it is ready. */
export function pagesUrl(line: string): string | undefined {
  return (JSON.parse(line) as { readonly metrics?: string }).metrics;
}

/** From the workers' metrics pages. */
export function latenessOf(pages: readonly string[]): Lateness {
  const numbers = (name: string) =>
    pages.map((page) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(page)?.[1] ?? 0));
  return {
    lateWakes: numbers('pushpacer_late_wakes_total').reduce((sum, count) => sum + count, 0),
    mostLateMs: Math.round(1_000 * Math.max(0, ...numbers('pushpacer_wake_lateness_most_seconds'))),
  };
}

const PAGE_MS = 5_000;

/** A worker's metrics; empty if it does not answer, or has no pages. */
export async function readPage(url: string | undefined): Promise<string> {
  if (url === undefined) return '';
  try {
    const answer = await fetch(`${url}/metrics`, {
      signal: AbortSignal.timeout(PAGE_MS),
      headers: { connection: 'close' },
    });
    return await answer.text();
  } catch {
    return '';
  }
}

function untilReady(child: ChildProcess, onLine: (line: string) => void): Promise<ReplicaProcess> {
  if (child.stdout === null) throw new TypeError('expected a worker with piped standard output, found one without');
  const lines = createInterface(child.stdout);
  return new Promise((resolve, reject) => {
    lines.on('line', (line) => {
      onLine(line);
      if (line.includes('"msg":"ready"')) resolve({ pid: child.pid ?? 0, url: pagesUrl(line) });
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
