import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import { makeNotification } from '../support/push.ts';
import { openWorkerBench } from '../support/worker.ts';

const TIMEOUT = { timeout: 15_000, interval: 20 };

it('SIGHUP has the files read while the terminal is there; a terminal that is closed ends its worker', async () => {
  const { env } = await openWorkerBench();
  const { child, written, pid } = await startOnTerminal(env);
  process.kill(pid, 'SIGHUP');
  await vi.waitFor(() => expect(written()).toContain('nothing has changed'), TIMEOUT);
  expect(await isRunning(pid)).toBe(true);
  child.kill('SIGKILL'); // the terminal is closed, which sends a SIGHUP too
  await vi.waitFor(async () => expect(await isRunning(pid)).toBe(false), TIMEOUT);
});

it('a terminal that is closed while a push is under way ends its worker too, which can write no line any more', async () => {
  const { env, queue, sandbox } = await openWorkerBench();
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 1_000 });
  const { child, pid } = await startOnTerminal(env);
  await queue.add('push', makeNotification());
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1), TIMEOUT);
  child.kill('SIGKILL');
  await vi.waitFor(async () => expect(await isRunning(pid)).toBe(false), TIMEOUT);
  expect(await queue.getCompletedCount()).toBe(1);
});

/** A worker on a pseudo-terminal of its own. */
async function startOnTerminal(env: Readonly<Record<string, string>>) {
  const command = `exec ${process.execPath} workers/notifications.ts`;
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const line = await vi.waitFor(() => {
    const found = /^\{.*"msg":"ready".*\}/m.exec(output)?.[0];
    expect(found).toBeDefined();
    return String(found);
  }, TIMEOUT);
  const { pid } = JSON.parse(line) as { pid: number };
  onTestFinished(async () => {
    if (await isRunning(pid)) process.kill(pid, 'SIGKILL');
  });
  return { child, pid, written: () => output };
}

/** An ended process that nobody has waited for has no command line any more. */
async function isRunning(pid: number): Promise<boolean> {
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')) !== '';
}
