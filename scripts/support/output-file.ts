import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { UsageError } from './command.ts';

/**
 * Makes sure that a file can be written, before the work whose result it will have.
 *
 * @throws UsageError if the path is a folder, its folder does not exist, or one of them may not be written
 */
export async function checkOutputFile(flag: string, path: string): Promise<void> {
  const fail = (found: string): never => {
    throw new UsageError(`${flag}: expected a file that can be written, found ${JSON.stringify(path)}: ${found}`);
  };
  const kind = path === '' ? undefined : await kindOf(path);
  if (path === '') fail('an empty name');
  if (kind === 'folder') fail('a folder');
  const folder = dirname(resolve(path));
  if ((await kindOf(folder)) !== 'folder') fail(`the folder ${JSON.stringify(folder)} does not exist`);
  const target = kind === undefined ? folder : path;
  if (!(await mayBeWritten(target))) fail(`this user may not write to ${JSON.stringify(target)}`);
}

async function kindOf(path: string): Promise<'folder' | 'file' | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return undefined;
  return found.isDirectory() ? 'folder' : 'file';
}

async function mayBeWritten(path: string): Promise<boolean> {
  return access(path, constants.W_OK).then(
    () => true,
    () => false,
  );
}
