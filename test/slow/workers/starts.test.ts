import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { CONFIG_VARIABLES } from '../../../src/config/variables.ts';
import { findParent, type Processes } from '../../../workers/parent.ts';
import { commandAt } from '../../house/compose.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeNotification } from '../../support/push.ts';
import { openWorkerBench } from '../../support/worker.ts';

const ROOT = process.cwd();
const UNIT = 'deploy/pushpacer@.service';
const TIMEOUT = { timeout: 20_000, interval: 20 };

/** The unit's setting of this name: `ExecStart` → `/srv/app/node_modules/.bin/pushpacer worker`. */
function setting(name: string): string {
  return new RegExp(`^${name}=(.*)$`, 'm').exec(readFileSync(UNIT, 'utf8'))?.[1] ?? '';
}

/** An app in which the package is installed, from the sources, with Node 24 as the first on its PATH. */
async function openApp(): Promise<{ folder: string; path: string }> {
  const folder = await temporaryFolder();
  const bin = join(folder, 'node_modules/.bin');
  await mkdir(bin, { recursive: true });
  await writeFile(join(folder, 'package.json'), '{ "name": "app", "private": true }');
  const program = JSON.stringify(pathToFileURL(join(ROOT, 'scripts/pushpacer.ts')).href);
  await writeFile(join(bin, 'pushpacer'), `#!/usr/bin/env node\nvoid import(${program});\n`, { mode: 0o755 });
  await symlink(process.execPath, join(bin, 'node'));
  return { folder, path: `${bin}:${process.env['PATH'] ?? ''}` };
}

interface Started {
  /** The process that a supervisor knows. */
  readonly pid: number;
  readonly workerPid: number;
  /** All log lines of the worker so far. */
  readonly lines: () => readonly Readonly<Record<string, unknown>>[];
  /** The exit code of the process that the supervisor knows. */
  readonly ended: Promise<number | null>;
  readonly signal: (name: NodeJS.Signals) => void;
}

/** Starts a worker as a supervisor does, without a terminal, and resolves when it is ready. */
async function supervise(command: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Promise<Started> {
  const [program = '', ...args] = command;
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'));
  const child = spawn(program, args, {
    cwd,
    env: { ...Object.fromEntries(inherited), ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  const lines = () =>
    output
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const workerPid = await vi.waitFor(() => {
    const ready = lines().find(({ msg }) => msg === 'ready');
    expect(ready).toBeDefined();
    return Number(ready?.['pid']);
  }, TIMEOUT);
  onTestFinished(() => {
    if (isRunning(workerPid)) process.kill(workerPid, 'SIGKILL');
  });
  return { pid: child.pid ?? 0, workerPid, lines, ended, signal: (name) => void child.kill(name) };
}

/** An ended process that nobody has waited for has no command line any more. */
function isRunning(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
  } catch {
    return false;
  }
}

/** A worker with a push under way that takes a second, and what became of it. */
async function openBusy(command: (folder: string) => readonly string[], cwd?: string) {
  const { env, queue, sandbox } = await openWorkerBench();
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 1_000 });
  const { folder, path } = await openApp();
  const started = await supervise(command(folder), cwd ?? folder, { ...env, PATH: path });
  await queue.add('push', makeNotification());
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1), TIMEOUT);
  expect(await queue.getCompletedCount()).toBe(0);
  return { ...started, queue };
}

const messages = ({ lines }: Pick<Started, 'lines'>) => lines().map(({ msg }) => String(msg));

describe('SIGTERM to what a supervisor started ends the jobs under way, and exits with 0:', () => {
  it.each<[string, (folder: string) => readonly string[], string?]>([
    ['the program itself', () => ['node_modules/.bin/pushpacer', 'worker']],
    ['a shell with exec', () => ['bash', '-c', 'true; exec node_modules/.bin/pushpacer worker']],
    ['the unit for systemd', (folder) => setting('ExecStart').replace('/srv/app', folder).split(' ')],
    ['the image', () => commandAt(/^CMD (.*)$/m).map((part) => part.replace(/^dist\/(.*)\.js$/, '$1.ts')), ROOT],
  ])('%s', async (_, command, cwd) => {
    const { pid, workerPid, queue, ended, signal, lines } = await openBusy(command, cwd);
    expect(workerPid).toBe(pid);
    signal('SIGTERM');
    expect(await ended).toBe(0);
    expect(await queue.getCompletedCount()).toBe(1);
    expect(messages({ lines }).filter((text) => text.includes('npm'))).toEqual([]);
  });

  it('also if the signal comes twice, as npm sends it once more after the terminal', async () => {
    const { queue, ended, signal } = await openBusy(() => ['node_modules/.bin/pushpacer', 'worker']);
    signal('SIGINT');
    await sleep(50); // the system may make one of two signals that have not been handled
    signal('SIGINT');
    expect(await ended).toBe(0);
    expect(await queue.getCompletedCount()).toBe(1);
  });
});

describe('a worker under npx', () => {
  it.each<NodeJS.Signals>(['SIGTERM', 'SIGKILL'])(
    'says how to start it instead, and stops in order when npx ended by %s',
    { timeout: 60_000 },
    async (name) => {
      const { pid, workerPid, queue, ended, signal, lines } = await openBusy(() => ['npx', 'pushpacer', 'worker']);
      expect(workerPid).not.toBe(pid);
      expect(messages({ lines })[0]).toContain('start node_modules/.bin/pushpacer worker instead');
      signal(name);
      expect(await ended).not.toBe(0);
      await vi.waitFor(() => expect(isRunning(workerPid)).toBe(false), TIMEOUT);
      expect(await queue.getCompletedCount()).toBe(1);
      expect(lines().at(-1)).toMatchObject({ msg: 'stopped' });
      const why = lines().find(({ msg }) => String(msg).startsWith('stopping'))?.['why'];
      expect(why).toBe('npm, which started this worker, has ended');
    },
  );
});

describe('who started a worker', () => {
  const NPM = { npm_command: 'exec', npm_lifecycle_event: 'npx' };
  /** The commands of the worker's parent, and of that one's parent. */
  const table = (...commands: readonly string[]) => {
    const pids = [10, 5, 1];
    const known = new Map(
      commands.map((command, at) => [pids[at] ?? 0, { parentPid: pids[at + 1] ?? 0, command }] as const),
    );
    let own = 10;
    const processes: Processes = { parentPid: () => own, look: (pid) => known.get(pid) };
    return { processes, known, adopt: (pid: number) => (own = pid) };
  };

  it.each<[string, commands: string[], isNpm: boolean]>([
    ['npx with its shell', ["sh -c 'pushpacer' worker", 'npm exec pushpacer worker'], true],
    ['npm without one', ['npm run worker', 'bash'], true],
    ['npm by its file', ['node /usr/lib/node_modules/npm/bin/npm-cli.js run worker'], true],
    ['yarn', ['/bin/sh -c pushpacer worker', 'node /opt/yarn-1.22/bin/yarn.js worker'], true],
    ['a test run that npm started', ['node (vitest 1)', 'npm test'], false],
    ['a daemon that npm started', ['PM2 v6: God Daemon (/root/.pm2)'], false],
    ['a shell of its own', ['bash', 'npm exec bash'], false],
  ])('%s: npm is %s', (_, commands, isNpm) => {
    expect(findParent(NPM, table(...commands).processes).isNpm).toBe(isNpm);
    expect(findParent({}, table(...commands).processes).isNpm).toBe(false);
  });

  it('is gone when the parent changed, or the parent of the shell between', () => {
    const commands = ['sh -c pushpacer worker', 'npm exec pushpacer worker'];
    const first = table(...commands);
    const orphan = findParent(NPM, first.processes);
    expect(orphan.isGone()).toBe(false);
    first.adopt(1);
    expect(orphan.isGone()).toBe(true);
    const second = table(...commands);
    const behindShell = findParent(NPM, second.processes);
    second.known.set(10, { parentPid: 1, command: 'sh -c pushpacer worker' });
    expect(behindShell.isGone()).toBe(true);
  });

  it('is npm by its variables alone where the system does not say', () => {
    const { processes, adopt } = table();
    const parent = findParent(NPM, processes);
    expect([parent.isNpm, parent.isGone()]).toEqual([true, false]);
    adopt(1);
    expect(parent.isGone()).toBe(true);
  });
});

describe('the unit for systemd', () => {
  it('signals the worker first', () => {
    expect([setting('KillSignal'), setting('KillMode')]).toEqual(['SIGTERM', 'mixed']);
  });

  it('lets the others go on if the system ends one of several workers', () => {
    expect(setting('OOMPolicy')).toBe('continue');
  });

  it('names only variables that there are, and is in the package', async () => {
    const known = new Set(CONFIG_VARIABLES.map(({ name }) => name));
    const text = await readFile(UNIT, 'utf8');
    const named = [...text.matchAll(/^(?:Environment=|# {3})([A-Z_]+)=/gm)].map(([, name]) => name ?? '');
    expect(named).toContain('REDIS_URL');
    expect(named.filter((name) => name !== 'PATH' && !known.has(name))).toEqual([]);
    const { files } = JSON.parse(await readFile('package.json', 'utf8')) as { files: string[] };
    expect(files).toContain('deploy');
  });
});

it('SIGHUP has the files read while the terminal is there; a terminal that is closed ends its worker', async () => {
  const { env } = await openWorkerBench();
  const { child, written, pid } = await startOnTerminal(env);
  process.kill(pid, 'SIGHUP');
  await vi.waitFor(() => expect(written()).toContain('nothing has changed'), TIMEOUT);
  expect(isRunning(pid)).toBe(true);
  child.kill('SIGKILL'); // the terminal is closed, which sends a SIGHUP too
  await vi.waitFor(() => expect(isRunning(pid)).toBe(false), TIMEOUT);
});

it('a terminal that is closed while a push is under way ends its worker too, which can write no line any more', async () => {
  const { env, queue, sandbox } = await openWorkerBench();
  sandbox.apns.setDefault({ kind: 'accept', delayMs: 1_000 });
  const { child, pid } = await startOnTerminal(env);
  await queue.add('push', makeNotification());
  await vi.waitFor(() => expect(sandbox.journal.accepted).toHaveLength(1), TIMEOUT);
  child.kill('SIGKILL');
  await vi.waitFor(() => expect(isRunning(pid)).toBe(false), TIMEOUT);
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
  onTestFinished(() => {
    if (isRunning(pid)) process.kill(pid, 'SIGKILL');
  });
  return { child, pid, written: () => output };
}
