import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findOnPath } from '../sandbox/redis/redis-server.ts';

const run = promisify(execFile);

/**
 * The path of a program. Where it is not on the PATH, Debian's package is installed with apt-get, as root, and it says so.
 *
 * @param packages its package, and others that it needs, with space between them
 * @param hint said with it: what avoids this
 */
export async function debianProgram(program: string, packages: string, hint = ''): Promise<string> {
  const path = process.env['PATH'] ?? '';
  const own = await findOnPath(program, path);
  if (own !== undefined) return own;
  process.stderr.write(`No ${program} on the PATH: installing the package ${packages} with apt-get.${hint}\n`);
  const install =
    `command -v ${program} >/dev/null || { export DEBIAN_FRONTEND=noninteractive; apt-get update -q && ` +
    `apt-get install -q -y --no-install-recommends ${packages}; }`;
  // Several test files may come here at once, and apt-get runs once at a time.
  await run('flock', [join(tmpdir(), 'pushpacer-apt-get.lock'), 'sh', '-c', install]);
  const installed = await findOnPath(program, path);
  if (installed === undefined) throw new Error(`the package ${packages} has no ${program} on the PATH`);
  return installed;
}
