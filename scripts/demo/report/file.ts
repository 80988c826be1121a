import { constants } from 'node:fs';
import { access, stat, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { UsageError } from '../../support/command.ts';
import { renderReport } from './page.ts';
import type { Findings } from './data.ts';

/**
 * Makes sure that the report can be written, before the demo's work begins.
 *
 * @throws UsageError if the path is a folder, its folder does not exist, or one of them may not be written
 */
export async function checkReportPath(path: string): Promise<void> {
  const fail = (found: string): never => {
    throw new UsageError(`--report: expected a file that can be written, found ${JSON.stringify(path)}: ${found}`);
  };
  const kind = path === '' ? undefined : await kindOf(path);
  if (path === '') fail('an empty name');
  if (kind === 'folder') fail('a folder');
  const folder = dirname(resolve(path));
  if ((await kindOf(folder)) !== 'folder') fail(`the folder ${JSON.stringify(folder)} does not exist`);
  const target = kind === undefined ? folder : path;
  if (!(await mayBeWritten(target))) fail(`this user may not write to ${JSON.stringify(target)}`);
}

export async function writeReport(path: string, findings: Findings): Promise<void> {
  await writeFile(path, renderReport(findings));
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
