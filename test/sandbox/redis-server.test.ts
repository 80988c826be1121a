import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findOnPath, installRedis, redisServer, type Machine } from '../../sandbox/redis/redis-server.ts';
import { temporaryFolder } from '../support/program.ts';

const silent = () => undefined;

/** A folder for a PATH with these programs, each a shell script. */
async function programs(scripts: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
  return folder;
}

const machine = (path: string, rest: Partial<Machine> = {}): Machine => ({
  path,
  platform: 'linux',
  isRoot: false,
  ...rest,
});

describe('the server that is used', () => {
  test('is the first on the PATH, Redis before Valkey', async () => {
    const [both, valkey] = [
      await programs({ 'redis-server': '', 'valkey-server': '' }),
      await programs({ 'valkey-server': '' }),
    ];
    expect(await redisServer(silent, machine(`${valkey}:${both}`), true)).toBe(join(both, 'redis-server'));
    expect(await redisServer(silent, machine(valkey), true)).toBe(join(valkey, 'valkey-server'));
  });

  test('must be a program', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'redis-server'), '', { mode: 0o644 });
    expect(await findOnPath('redis-server', `:${folder}:/no/such/folder`)).toBeUndefined();
  });

  test.each([
    ['brew', 'darwin', 'brew install redis'],
    ['apt-get', 'linux', 'sudo apt-get install redis-server'],
    ['dnf', 'linux', 'sudo dnf install valkey'],
    ['apk', 'linux', 'sudo apk add redis'],
    ['nothing', 'darwin', 'brew install redis'],
    ['nothing', 'win32', 'in WSL: sudo apt-get install redis-server'],
  ] as const)('is asked for where there is none: with %s on %s', async (program, platform, command) => {
    const path = await programs({ [program]: '' });
    await expect(redisServer(silent, machine(path, { platform }), true)).rejects.toThrow(
      `no Redis: REDIS_URL: expected the URL of a Redis, or a redis-server on the PATH (${command}), found neither`,
    );
  });
});

describe('installing, for root on a machine with apt-get', () => {
  /** A pretended apt-get: writes down its arguments, and "installs" the program next to itself. */
  const apt = `
    here=$(dirname "$0")
    [ "$DEBIAN_FRONTEND" = noninteractive ] || exit 9
    echo "$*" >> "$here/calls"
    [ "$1" = update ] || { echo '#!/bin/sh' > "$here/redis-server"; chmod +x "$here/redis-server"; }`;
  const tools = (folder: string) => `${folder}:/usr/bin:/bin`;

  test('says so, and gives the server of the package', async () => {
    const folder = await programs({ 'apt-get': apt });
    const said: string[] = [];
    const server = await installRedis((line) => said.push(line), tools(folder));
    expect(server).toBe(join(folder, 'redis-server'));
    expect(said[0]).toMatch(/installing the package redis-server with apt-get/);
    expect(said.join('\n')).toMatch(/systemctl disable --now redis-server/);
    expect(await readFile(join(folder, 'calls'), 'utf8')).toBe(
      'update -q\ninstall -q -y --no-install-recommends redis-server\n',
    );
  });

  test('does not happen unless it was asked for', async () => {
    const folder = await programs({ 'apt-get': apt });
    const there = machine(folder, { isRoot: true });
    await expect(redisServer(silent, there, false)).rejects.toThrow('(sudo apt-get install redis-server)');
    await expect(stat(join(folder, 'calls'))).rejects.toThrow('ENOENT');
  });

  test('shows what apt-get said where it fails', async () => {
    const folder = await programs({ 'apt-get': 'echo "E: no network" >&2; exit 100' });
    const failed = installRedis(silent, tools(folder));
    await expect(failed).rejects.toThrow('apt-get update -q ended with 100:\nE: no network');
    await expect(stat(join(folder, 'redis-server'))).rejects.toThrow('ENOENT');
  });
});
