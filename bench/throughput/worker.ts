import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Platform } from '../../src/domain/notification.ts';
import { isAlive, spawnWorker } from '../../demo/replicas.ts';
import { CONCURRENCY, type Side } from './case.ts';

export interface WorkerOptions {
  readonly side: Side;
  readonly platform: Platform;
  /** Where Redis and the providers are, and the queue's prefix. */
  readonly env: Readonly<Record<string, string>>;
  /** The file for both outputs: a pipe to this process would slow the worker down. */
  readonly logFile: string;
  /** Flags for node: those that write a processor profile. */
  readonly nodeFlags?: readonly string[];
}

/** One worker process. It ends with this process. */
export interface MeasuredWorker {
  /** Throws, with its last output, if the process has ended. */
  expectAlive(): Promise<void>;
  /** Processor time so far, of all its threads, in milliseconds; NaN without /proc. */
  cpuMs(): Promise<number>;
  /** SIGTERM. Rejects if it does not end with exit code 0. */
  stop(): Promise<void>;
}

const PLAIN = fileURLToPath(new URL('./plain-worker.ts', import.meta.url));
const LAST_CHARACTERS = 2_000;
/** A worker that has not ended this long after SIGTERM is killed. */
const STOP_TIMEOUT_MS = 30_000;

export async function startWorker(options: WorkerOptions): Promise<MeasuredWorker> {
  const log = await open(options.logFile, 'w');
  const child = spawnSide(options, log.fd);
  await log.close(); // the worker has a descriptor of its own
  const exited = once(child, 'exit');
  const failure = async (what: string): Promise<Error> => {
    const text = await readFile(options.logFile, 'utf8');
    return new Error(`the ${options.side} worker ${what}; its last output:\n${text.slice(-LAST_CHARACTERS)}`);
  };
  return {
    async expectAlive() {
      if (!isAlive(child)) throw await failure('ended early');
    },
    cpuMs: () => cpuMsOf(child.pid ?? 0),
    async stop() {
      const killer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
      if (isAlive(child)) {
        child.kill('SIGTERM');
        await exited;
      }
      clearTimeout(killer);
      if (child.exitCode !== 0) throw await failure(`ended with ${child.signalCode ?? `exit code ${child.exitCode}`}`);
    },
  };
}

/** Fields 14 and 15 of proc(5)'s stat, in hundredths of a second; the name before them may hold spaces. */
async function cpuMsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function spawnSide({ side, platform, env, nodeFlags = [] }: WorkerOptions, log: number): ChildProcess {
  const settings = { ...env, WORKER_CONCURRENCY: String(CONCURRENCY) };
  if (side === 'pushpacer') {
    // Replicas are spawned without flags of their own; node takes them from here as well.
    const flags = nodeFlags.length === 0 ? {} : { NODE_OPTIONS: nodeFlags.join(' ') };
    return spawnWorker({ ...settings, ...flags }, [log, log], false);
  }
  return spawn(process.execPath, [...nodeFlags, PLAIN, platform], {
    env: { ...process.env, ...settings },
    stdio: ['ignore', log, log, 'ipc'],
  });
}
