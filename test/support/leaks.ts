import { readdir, readFile } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const MARK = 'PUSHPACER_TEST_RUN';
/** How long a process that has to end may take. */
const GRACE_MS = 3_000;

/** Marks every process that this run will start, through the environment that it inherits. */
export function markRun(): void {
  process.env[MARK] = crypto.randomUUID();
}

/** The command lines of processes of this run that nobody ended, once the grace is over. Empty where /proc is missing. */
export async function leftoverProcesses(graceMs = GRACE_MS): Promise<string[]> {
  const until = performance.now() + graceMs;
  for (;;) {
    const left = await processesWith(`${MARK}=${process.env[MARK] ?? ''}`);
    if (left.length === 0 || performance.now() > until) return left;
    await setTimeout(50);
  }
}

/** Keys that no test owns: `testPrefix()` begins all of a test's own, so these were written past a prefix that was given. */
export async function strayKeys(redis: Redis): Promise<string[]> {
  const stray: string[] = [];
  for await (const keys of redis.scanStream({ count: 1_000 }) as AsyncIterable<string[]>) {
    stray.push(...keys.filter((key) => !/(^|\{)test-/.test(key)));
  }
  return [...new Set(stray)].sort();
}

/**
 * The command lines of processes that have this in their environment: `NAME=value`. This process, and the runner's workers, which are
 * its children, are no leak: what a test started is a child of those.
 */
export async function processesWith(mark: string): Promise<string[]> {
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(pids.map((pid) => describe(pid, mark)));
  return found.filter((line) => line !== undefined);
}

async function describe(pid: string, mark: string): Promise<string | undefined> {
  try {
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8');
    if (!environment.split('\0').includes(mark)) return undefined;
    const parent = /^PPid:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1];
    if (pid === String(process.pid) || parent === String(process.pid)) return undefined;
    const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').join(' ').trim();
    return command === '' ? undefined : `${pid}: ${command}`; // a zombie has no command line
  } catch {
    return undefined; // it has ended, or is not ours
  }
}
