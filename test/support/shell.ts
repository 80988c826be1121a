import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { dirname } from 'node:path';
import { onTestFinished, vi } from 'vitest';

/** A command line that runs in a bash of its own, as a person types it into a terminal. */
export interface Shell {
  /** Both outputs so far. */
  output(): string;
  /** Resolves when the output matches; rejects if the command ends before, or it takes longer than a minute. */
  until(pattern: RegExp): Promise<void>;
  /** Presses Ctrl-C. */
  interrupt(): void;
  /** The exit code. */
  readonly ended: Promise<number | null>;
}

const CTRL_C = '\u0003';

export interface ShellOptions {
  readonly cwd: string;
  /** The whole environment. */
  readonly env: NodeJS.ProcessEnv;
}

/** How long a command may take to stop after Ctrl-C. */
const STOP_MS = 30_000;

/** Starts it on a pseudo-terminal (`script` of util-linux). It is stopped with Ctrl-C when the test ends, the last one first. */
export function startShell(line: string, { cwd, env }: ShellOptions): Shell {
  const child = spawn('script', ['-qefc', line, '/dev/null'], {
    cwd,
    env: { ...env, SHELL: '/bin/bash' },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  child.stdin.on('error', () => undefined); // it may end first
  let isEnded = false;
  const ended = once(child, 'close').then(([code]) => {
    isEnded = true;
    return code as number | null;
  });
  onTestFinished(async () => {
    if (isEnded) return;
    child.stdin.write(CTRL_C); // `script` ends when the command has ended
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(late);
  });
  return {
    output: () => output,
    interrupt: () => void child.stdin.write(CTRL_C),
    ended,
    until: (pattern) =>
      vi.waitUntil(
        () => {
          if (pattern.test(output)) return true;
          if (isEnded) throw new Error(`${line} ended without ${String(pattern)}:\n${output}`);
          return false;
        },
        { timeout: 60_000, interval: 50 },
      ) as Promise<unknown> as Promise<void>,
  };
}

/** A user's machine: Node 24 and npm, with nothing of this repository and of the run that this test is a part of. */
export function userEnvironment(): NodeJS.ProcessEnv {
  const own = /^(VITEST|REDIS_|npm_(lifecycle|package|command|execpath|config_local_prefix)|INIT_CWD$|NODE_ENV$|CI$)/;
  const kept = Object.entries(process.env).filter(([name]) => !own.test(name));
  const path = (process.env['PATH'] ?? '').split(':').filter((folder) => !folder.includes('node_modules'));
  return {
    ...Object.fromEntries(kept),
    PATH: [dirname(process.execPath), ...path].join(':'),
    TERM: 'xterm',
    npm_config_prefer_offline: 'true',
  };
}
