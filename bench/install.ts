import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { CommandError } from '../src/terminal/command.ts';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const OUTPUT_CHARACTERS = 1_000;

/** The other libraries, in the versions of bench/package.json. */
export interface Rivals {
  readonly load: NodeJS.Require;
  readonly versions: Readonly<Record<string, string>>;
}

/** Loads the libraries in bench/, and installs them first if their versions are not those of bench/package.json. */
export async function installRivals(say: (line: string) => void): Promise<Rivals> {
  const versions = await wanted();
  if (!(await areInstalled(versions))) {
    say(`installing ${Object.keys(versions).join(', ')} in bench/ (npm ci)`);
    await install();
  }
  const load = createRequire(new URL('package.json', import.meta.url));
  for (const name of Object.keys(versions)) tryToLoad(load, name);
  return { load, versions };
}

/** Loads it once before measuring, because a native part may be missing for this platform. */
function tryToLoad(load: NodeJS.Require, name: string): void {
  try {
    load(name);
  } catch (error) {
    const [reason] = String(error).split('\n');
    throw new CommandError(`${name} does not load; --quick does without it: ${reason ?? ''}`);
  }
}

async function wanted(): Promise<Record<string, string>> {
  const { dependencies } = (await readJson('package.json')) as { dependencies: Record<string, string> };
  return dependencies;
}

async function areInstalled(versions: Record<string, string>): Promise<boolean> {
  const found = await Promise.all(
    Object.entries(versions).map(async ([name, version]) => {
      const manifest = await readJson(`node_modules/${name}/package.json`).catch(() => undefined);
      return (manifest as { version?: string } | undefined)?.version === version;
    }),
  );
  return found.every(Boolean);
}

/** Without install scripts: the only native part, microtime, contains binaries for the usual platforms. */
function install(): Promise<void> {
  // `npm run` sets the prefix to the repository's root: without this, npm would install there.
  const env = { ...process.env, npm_config_local_prefix: undefined };
  return new Promise((resolve, reject) => {
    execFile('npm', ['ci', '--ignore-scripts'], { cwd: FOLDER, env }, (error, stdout, stderr) => {
      const output = `${stdout}${stderr}`.trim().slice(-OUTPUT_CHARACTERS);
      if (error === null) resolve();
      else reject(new CommandError(`the rivals could not be installed; --quick does without them:\n${output}`));
    });
  });
}

async function readJson(path: string): Promise<unknown> {
  return JSON.parse(await readFile(`${FOLDER}${path}`, 'utf8'));
}
