import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const END_WITH_PARENT = new URL('end-with-parent.ts', import.meta.url).href;
const KILL_ITSELF = new URL('kill-itself.ts', import.meta.url).href;
const STOP_ITSELF = new URL('stop-itself.ts', import.meta.url).href;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** It only ends a test that fails anyway, however busy the machine is. */
const PATIENCE_MS = 60_000;

export interface ProcessOptions {
  /** The script and its flags: `['scripts/redis.ts', '--help']`, relative to the repository. */
  readonly args: readonly string[];
  /** What runs them, with its flags; Node where it is left out. */
  readonly program?: readonly [program: string, ...flags: string[]];
  /** On top of this process's environment; `undefined` takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The repository's root where it is left out. */
  readonly cwd?: string;
  /** Written to standard input, which is then closed. */
  readonly input?: string;
}

export interface Exit {
  /** `null` where a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A Node script that runs as a child of the test, and is killed with it. */
export interface TestProcess {
  readonly pid: number;
  /** The first line of either output that matches, also one that has passed. Rejects where the process ends without one. */
  waitForLine(pattern: RegExp, timeoutMs?: number): Promise<string>;
  waitForExit(timeoutMs?: number): Promise<Exit>;
  /** What it has written so far. */
  stdout(): string;
  kill(signal?: NodeJS.Signals): void;
}

/** The flags of a process that gets the signal once it has sent so many calls of scripts to Redis, and its environment. */
export function killedAfter(scriptCalls: number, signal: NodeJS.Signals = 'SIGKILL', times = 1) {
  const env = { KILL_AFTER: String(scriptCalls), KILL_SIGNAL: signal, KILL_TIMES: String(times) };
  return { flags: ['--import', KILL_ITSELF], env };
}

/** The flags of a process that stops when Redis has answered its first call that contains this text, and its environment. */
export function stoppedAt(text: string) {
  return { flags: ['--import', STOP_ITSELF], env: { STOP_AT: text } };
}

/** Starts a Node script. It is killed when the test ends, and ends by itself when the test's process does. */
export function startProcess({
  args,
  program = [process.execPath, '--import', END_WITH_PARENT],
  env = {},
  cwd = ROOT,
  input = '',
}: ProcessOptions): TestProcess {
  const [command, ...flags] = program;
  const child = spawn(command, [...flags, ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    const stream = child[name];
    stream.setEncoding('utf8').on('data', (text: string) => (output[name] += text));
    createInterface({ input: stream }).on('line', (line) => lines.push(line) && child.emit('line', line));
  }
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  child.stdin.on('error', () => undefined); // it may end without reading all of it
  child.stdin.end(input);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await closed;
  });

  const give = async <T>(fact: Promise<T>, what: string, timeoutMs: number): Promise<T> => {
    const timer = new AbortController();
    const late = setTimeout(timeoutMs, undefined, { signal: timer.signal }).then(() => {
      throw new Error(`no ${what} from ${args.join(' ')} within ${timeoutMs} ms; its output:\n${lines.join('\n')}`);
    });
    return Promise.race([fact, late]).finally(() => {
      timer.abort();
    });
  };

  const nextLine = async (pattern: RegExp): Promise<string> => {
    const passed = lines.find((line) => pattern.test(line));
    if (passed !== undefined) return passed;
    return new Promise((resolve, reject) => {
      child.on('line', (line: string) => {
        if (pattern.test(line)) resolve(line);
      });
      void closed.then(() => {
        reject(new Error(`${args.join(' ')} ended without a line like ${String(pattern)}:\n${lines.join('\n')}`));
      });
    });
  };

  return {
    pid: child.pid ?? 0,
    waitForLine: (pattern, timeoutMs = PATIENCE_MS) =>
      give(nextLine(pattern), `line like ${String(pattern)}`, timeoutMs),
    waitForExit: async (timeoutMs = PATIENCE_MS) => {
      const [code, signal] = await give(closed, 'exit', timeoutMs);
      return { code, signal, ...output };
    },
    stdout: () => output.stdout,
    kill: (signal = 'SIGTERM') => child.kill(signal),
  };
}
