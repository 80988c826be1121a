import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, pagesUrl, spawnWorker } from '../../support/replicas.ts';

/** One worker process. Its output goes to a file, so that no line is lost if it is killed. */
export interface ChaosWorker {
  readonly pid: number;
  /** Where its output goes. */
  readonly logFile: string;
  /** Resolves when it takes jobs; rejects if it ends before, or takes longer than a minute. */
  readonly ready: Promise<unknown>;
  /** The address of its pages, while it takes jobs. */
  url(): string | undefined;
  /** Its exit code; null if a signal ended it. */
  readonly ended: Promise<number | null>;
  isAlive(): boolean;
  signal(name: NodeJS.Signals): void;
  /** SIGSTOP now, SIGCONT after `ms`, even if this process has ended by then. Resolves when the worker goes on. */
  freeze(ms: number): Promise<void>;
}

const POLL_MS = 50;
/** A worker waits up to 30 s for a Redis that is away; the rest is for a busy machine, and for being frozen meanwhile. */
const READY_TIMEOUT_MS = 60_000;

export async function startWorker(env: Readonly<Record<string, string>>, logFile: string): Promise<ChaosWorker> {
  const log = await open(logFile, 'w');
  const child = spawnWorker(env, [log.fd, log.fd]);
  await log.close(); // the child has its own
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const pid = child.pid ?? 0;
  let url: string | undefined;
  const ready = untilReady(logFile, () => isAlive(child)).then((its) => (url = its));
  ready.catch(() => undefined); // the caller of `ready` gets the error
  return {
    pid,
    logFile,
    ready,
    ended,
    url: () => (isAlive(child) ? url : undefined),
    isAlive: () => isAlive(child),
    signal: (name) => void child.kill(name),
    async freeze(ms) {
      child.kill('SIGSTOP');
      const waker = spawn(
        'sh',
        ['-c', 'sleep "$1"; kill -CONT "$2" 2>/dev/null', 'sh', String(ms / 1_000), String(pid)],
        {
          stdio: 'ignore',
          detached: true, // Ctrl-C must not leave a frozen worker behind
        },
      );
      waker.unref();
      await once(waker, 'exit');
    },
  };
}

/** The address of its pages, from the log line that says that it is ready. */
async function untilReady(logFile: string, alive: () => boolean): Promise<string | undefined> {
  const deadline = performance.now() + READY_TIMEOUT_MS;
  for (;;) {
    const isStillAlive = alive();
    const line = (await readFile(logFile, 'utf8')).split('\n').find((text) => text.includes('"msg":"ready"'));
    if (line !== undefined) return pagesUrl(line);
    if (!isStillAlive) throw new Error(`a worker ended before it was ready; see ${logFile}`);
    if (performance.now() > deadline) {
      throw new Error(`a worker was not ready within ${READY_TIMEOUT_MS / 1_000} s; see ${logFile}`);
    }
    await sleep(POLL_MS);
  }
}
