import { execFile } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findOnPath } from '../../sandbox/redis/redis-server.ts';

const run = promisify(execFile);

/** The path of a program. Where it is not on the PATH, Debian's package is installed with apt-get, as root, and it says so. */
export async function debianProgram(program: string, debianPackage: string): Promise<string> {
  const path = process.env['PATH'] ?? '';
  const own = await findOnPath(program, path);
  if (own !== undefined) return own;
  process.stderr.write(`No ${program} on the PATH: installing the package ${debianPackage} with apt-get.\n`);
  const install =
    `command -v ${program} >/dev/null || { export DEBIAN_FRONTEND=noninteractive; apt-get update -q && ` +
    `apt-get install -q -y --no-install-recommends ${debianPackage}; }`;
  // Several test files may come here at once, and apt-get runs once at a time.
  await run('flock', [join(tmpdir(), 'pushpacer-apt-get.lock'), 'sh', '-c', install]);
  const installed = await findOnPath(program, path);
  if (installed === undefined) throw new Error(`the package ${debianPackage} has no ${program} on the PATH`);
  return installed;
}
