import { execFile } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** The package of an earlier version, which reads and writes what was stored before formats had a number (test/fixtures/README.md). */
export const EARLIER = join(ROOT, 'test/fixtures/pushpacer-0.1.0-f55c1c1.tgz');

/** Unpacks a package into an empty folder, and answers the path of its worker's program. It uses the dependencies of this checkout. */
export async function unpackVersion(tarball: string, folder: string): Promise<string> {
  await promisify(execFile)('tar', ['xzf', tarball, '-C', folder]);
  await linkPackages(folder);
  return join(folder, 'package/dist/workers/notifications.js');
}

/** Gives a copy of the program in this folder the dependencies of this checkout. */
export function linkPackages(folder: string): Promise<void> {
  return symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
}
