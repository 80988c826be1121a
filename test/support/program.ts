import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { onTestFinished } from 'vitest';

/** Runs a program to its end and gives its standard output; rejects with all of its output where it fails. */
export function runProgram(program: string, args: readonly string[], cwd: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      program,
      args,
      { cwd, env: { ...process.env, npm_config_local_prefix: undefined } },
      (error, stdout, stderr) => {
        if (error) reject(new Error(`${program} ${args.join(' ')} failed:\n${stdout}${stderr}`, { cause: error }));
        else resolve(stdout);
      },
    );
  });
}

/** A folder outside of the repository that is removed when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'pushpacer-test-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

/** A project of a user for an example: what pushpacer needs is installed above it, and the frameworks of test/slow in it. */
export async function exampleFolder(): Promise<string> {
  const above = await temporaryFolder();
  const folder = join(above, 'project');
  await mkdir(folder);
  await symlink(resolve('node_modules'), join(above, 'node_modules'));
  await symlink(resolve('test/slow/node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Such a folder with these files: by the path of each, its text. */
export async function folderOf(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return folder;
}
