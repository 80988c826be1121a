import { execFile } from 'node:child_process';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { CommandError } from '../src/terminal/command.ts';

const ROOT = join(import.meta.dirname, '..');

/** Folders with a package.json and a lock file of their own, so that `npm ci` in the clone brings only what most people need. */
const FOLDERS = ['tools', 'test/slow'] as const;
type PackageFolder = (typeof FOLDERS)[number];

/** A copy of the lock file that was installed. `npm ci` removes it with the rest before it begins. */
const INSTALLED = 'node_modules/.installed-lock.json';
/** Has the id of the process that installs. */
const INSTALLING = '.installing';
const POLL_MS = 200;
const OUTPUT_CHARACTERS = 1_000;
const UNREACHABLE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|E\w*TIMEDOUT|ERR_SOCKET_TIMEOUT)\b/;

/** Installs the packages of all of them. `say`: told what takes a while. */
export async function installAll(say: (line: string) => void): Promise<void> {
  for (const folder of FOLDERS) await installPackages(folder, say);
}

/** Installs the packages of a folder unless those of its lock file are there. Of several processes one installs, and the others wait. */
export async function installPackages(folder: PackageFolder, say: (line: string) => void): Promise<void> {
  const path = join(ROOT, folder);
  const wanted = await readFile(join(path, 'package-lock.json'), 'utf8');
  const isInstalled = async () => (await readFile(join(path, INSTALLED), 'utf8').catch(() => undefined)) === wanted;
  while (!(await isInstalled())) {
    if (!(await begin(join(path, INSTALLING)))) {
      await setTimeout(POLL_MS);
      continue;
    }
    try {
      if (await isInstalled()) return; // another process ended its work since the look above
      say(`installing the packages of ${folder}/ (npm ci), once`);
      await npmCi(folder);
      await writeFile(join(path, INSTALLED), wanted);
    } finally {
      await rm(join(path, INSTALLING), { force: true });
    }
  }
}

/** False if another process installs. What a process left that was killed is taken away. */
async function begin(file: string): Promise<boolean> {
  try {
    await writeFile(file, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const owner = Number(await readFile(file, 'utf8').catch(() => ''));
  if (owner > 0 && !isRunning(owner)) await rm(file, { force: true });
  return false;
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Installs what the lock file of a folder has. Without install scripts: none of these packages needs its own. */
export function npmCi(folder: string): Promise<void> {
  // `npm run` sets the prefix to the repository's root: without this, npm would install there.
  const env = { ...process.env, npm_config_local_prefix: undefined };
  return new Promise((resolve, reject) => {
    execFile('npm', ['ci', '--ignore-scripts'], { cwd: join(ROOT, folder), env }, (error, stdout, stderr) => {
      if (error === null) {
        resolve();
        return;
      }
      const output = `${stdout}${stderr}`.trim();
      const [code] = UNREACHABLE.exec(output) ?? [];
      const reason =
        code === undefined ? `\n${output.slice(-OUTPUT_CHARACTERS)}` : ` npm cannot reach its registry (${code})`;
      reject(new CommandError(`the packages of ${folder}/ could not be installed:${reason}`));
    });
  });
}

/** `node tools/install.ts tools test/slow` */
async function main(names: readonly string[]): Promise<void> {
  for (const name of names) {
    const folder = FOLDERS.find((each) => each === name);
    if (folder === undefined) throw new CommandError(`${name}: expected one of ${FOLDERS.join(', ')}`);
    await installPackages(folder, (line) => process.stderr.write(`${line}\n`));
  }
}

if (import.meta.main) {
  await main(process.argv.slice(2)).catch((error: unknown) => {
    if (!(error instanceof CommandError)) throw error;
    process.stderr.write(`error: ${error.message}\n`);
    process.exitCode = 1;
  });
}
