import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { InputError } from '../../src/domain/faults.ts';

/** Debian's packages run this before they start a service; exit code 101 forbids it (invoke-rc.d(8)). */
const SERVICE_POLICY = '/usr/sbin/policy-rc.d';

/**
 * Installs Debian's `redis-server` with apt-get, as root, and says so first. The package would also start and enable a
 * service on port 6379; both are prevented.
 */
export async function installRedis(
  say: (line: string) => void,
  path: string,
  policyFile = SERVICE_POLICY,
): Promise<void> {
  say('No redis-server on the PATH: installing the package redis-server with apt-get. REDIS_URL avoids this.');
  const wasPolicyWritten = await writeFile(policyFile, '#!/bin/sh\nexit 101\n', { mode: 0o755, flag: 'wx' }).then(
    () => true,
    () => false, // the file exists: it is the machine's own policy
  );
  try {
    await run('apt-get', ['update', '-q'], path);
    await run('apt-get', ['install', '-q', '-y', '--no-install-recommends', 'redis-server'], path);
  } finally {
    if (wasPolicyWritten) await rm(policyFile, { force: true });
  }
  await run('update-rc.d', ['redis-server', 'disable'], path).catch(() => undefined); // not every image has services
  say('Installed redis-server; its service is off.');
}

/** Runs a program to its end; rejects with the end of its output where it fails. */
function run(program: string, args: readonly string[], path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, PATH: path, DEBIAN_FRONTEND: 'noninteractive' };
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
    let output = '';
    const keep = (chunk: Buffer): void => {
      output = `${output}${chunk.toString()}`.slice(-2_000);
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`${program} ${args.join(' ')} ended with ${code ?? 'a signal'}:\n${output.trim()}`));
    });
  });
}

/** Servers that speak the protocol and take the same options; the first that is found is used. */
const SERVERS = ['redis-server', 'valkey-server'];

/** This machine's properties, as an argument so that a test can describe another machine. */
export interface Machine {
  /** The PATH to look on. */
  readonly path: string;
  readonly platform: NodeJS.Platform;
  readonly isRoot: boolean;
}

export function thisMachine(): Machine {
  return { path: process.env['PATH'] ?? '', platform: process.platform, isRoot: process.getuid?.() === 0 };
}

/**
 * The path of a Redis server: one on the PATH, or else Debian's, which is installed if that is allowed, there is apt-get and the
 * user is root.
 * Rejects with an InputError that names the platform's install command if there is none.
 */
export async function redisServer(
  say: (line: string) => void,
  machine = thisMachine(),
  mayInstall = true,
): Promise<string> {
  const there = await findServer(machine.path);
  if (there !== undefined) return there;
  const isDebian = machine.platform === 'linux' && (await findOnPath('apt-get', machine.path)) !== undefined;
  if (mayInstall && isDebian && machine.isRoot) {
    await installRedis(say, machine.path);
    const installed = await findServer(machine.path);
    if (installed !== undefined) return installed;
  }
  const expected = `the URL of a Redis, or a redis-server on the PATH (${await installHint(machine)})`;
  throw new InputError('no Redis', [{ path: 'REDIS_URL', expected, found: 'neither' }]);
}

/** `findOnPath('sh', '/usr/bin:/bin')` → `/usr/bin/sh`; `undefined` where no folder has such a program. */
export async function findOnPath(program: string, path: string): Promise<string | undefined> {
  for (const folder of path.split(delimiter).filter((entry) => entry !== '')) {
    const file = join(folder, program);
    const isThere = await access(file, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return file;
  }
  return undefined;
}

async function findServer(path: string): Promise<string | undefined> {
  for (const name of SERVERS) {
    const file = await findOnPath(name, path);
    if (file !== undefined) return file;
  }
  return undefined;
}

const PACKAGE_MANAGERS: readonly (readonly [program: string, command: string])[] = [
  ['brew', 'brew install redis'],
  ['apt-get', 'sudo apt-get install redis-server'],
  ['dnf', 'sudo dnf install valkey'],
  ['apk', 'sudo apk add redis'],
  ['pacman', 'sudo pacman -S valkey'],
  ['zypper', 'sudo zypper install redis'],
];

async function installHint({ path, platform }: Machine): Promise<string> {
  if (platform === 'win32') return 'in WSL: sudo apt-get install redis-server';
  for (const [program, command] of PACKAGE_MANAGERS) {
    if ((await findOnPath(program, path)) !== undefined) return command;
  }
  return platform === 'darwin' ? 'brew install redis' : 'the package is mostly called redis-server, redis or valkey';
}
