import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { InputError } from '../../src/domain/faults.ts';

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
 * The path of a Redis server: one on the PATH, or else Debian's, which is installed if `mayInstall`, there is apt-get and the user
 * is root. Rejects with an InputError that says what to do if there is none: the platform's install command, or a container.
 */
export async function redisServer(say: (line: string) => void, machine: Machine, mayInstall: boolean): Promise<string> {
  for (const name of SERVERS) {
    const file = await findOnPath(name, machine.path);
    if (file !== undefined) return file;
  }
  const isDebian = machine.platform === 'linux' && (await findOnPath('apt-get', machine.path)) !== undefined;
  const expected =
    `a redis-server or valkey-server on the PATH (${await installHint(machine)}), or the URL of a Redis, such as ` +
    `redis://127.0.0.1:6379 of one in a container (${IN_A_CONTAINER})`;
  const none = (found: string): InputError => new InputError('no Redis', [{ path: 'REDIS_URL', expected, found }]);
  if (!mayInstall || !isDebian || !machine.isRoot) throw none('neither');
  return installRedis(say, machine.path).catch((error: unknown) => {
    throw none(`neither, and ${(error as Error).message}`);
  });
}

/** For a machine on which nothing can be installed. */
const IN_A_CONTAINER = 'docker run --rm -p 127.0.0.1:6379:6379 redis:7-alpine';

/** Installs Debian's package `redis-server` with apt-get, as root, and says so first. Resolves with the path of the server. */
async function installRedis(say: (line: string) => void, path: string): Promise<string> {
  say(
    'No redis-server on the PATH: installing the package redis-server with apt-get. A Redis of your own avoids this (REDIS_URL).',
  );
  await run('apt-get', ['update', '-q'], path);
  await run('apt-get', ['install', '-q', '-y', '--no-install-recommends', 'redis-server'], path);
  const server = await findOnPath('redis-server', path);
  if (server === undefined) throw new Error('the package redis-server has no program of that name on the PATH');
  say(
    `Installed ${server}. Where systemd runs, the package also started a service on port 6379, which nothing here uses:`,
  );
  say('  systemctl disable --now redis-server');
  return server;
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
