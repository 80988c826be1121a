import { execFile } from 'node:child_process';
import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startProcess, type Exit } from './process.ts';
import { temporaryFolder } from './program.ts';

const root = process.cwd();

/** The code under `<!-- test: NAME -->` of a page. */
export async function snippetOf(page: string, name: string, language: 'js' | 'ts' | 'sh' = 'js'): Promise<string> {
  const text = await readFile(page, 'utf8');
  const code = new RegExp(`<!-- test: ${name} -->\\n\\n?\`\`\`${language}\\n([^]*?)\`\`\``).exec(text)?.[1];
  if (code === undefined) throw new Error(`${page} has no snippet ${name}`);
  return code;
}

export interface SnippetInput {
  readonly env: Readonly<Record<string, string>>;
  /** For its standard input. */
  readonly input?: string;
}

/** Runs the code under `<!-- test: NAME -->` of a page as a user would, but against the sources. */
export async function runSnippet(page: string, name: string, given: string | SnippetInput): Promise<Exit> {
  const code = await snippetOf(page, name);
  const folder = await temporaryFolder();
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const file = join(folder, 'snippet.mjs');
  await writeFile(file, code.replace("'pushpacer'", JSON.stringify(join(root, 'src/index.ts'))));
  const { env, input = '' } = typeof given === 'string' ? { env: { REDIS_URL: given } } : given;
  return startProcess({ args: [file], env, input }).waitForExit(180_000); // how long it takes is no promise of a page
}

/** Runs the commands under `<!-- test: NAME -->` of a page; the first one that fails ends them, and rejects with the output. */
export async function runCommands(page: string, name: string, env: Readonly<Record<string, string>>): Promise<string> {
  const commands = await snippetOf(page, name, 'sh');
  return new Promise((resolve, reject) => {
    execFile(
      'bash',
      ['-euo', 'pipefail', '-c', commands],
      { env: { ...process.env, ...env } },
      (error, stdout, stderr) => {
        if (error) reject(new Error(`${name} of ${page} failed:\n${stdout}${stderr}`, { cause: error }));
        else resolve(stdout);
      },
    );
  });
}
