import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';

/** Processes that do nothing but take processor time, until the test ends; after two minutes they end by themselves. */
export function startBusyLoops(count: number): void {
  for (let started = 0; started < count; started++) {
    const child = spawn(process.execPath, ['-e', 'const end = Date.now() + 120_000; while (Date.now() < end);'], {
      stdio: 'ignore',
    });
    const exited = once(child, 'exit');
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await exited;
    });
  }
}
