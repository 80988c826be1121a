import { readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startProcess, type Exit } from './process.ts';
import { temporaryFolder } from './program.ts';

const root = process.cwd();

/** The code under `<!-- test: NAME -->` of a page. */
export async function snippetOf(page: string, name: string): Promise<string> {
  const text = await readFile(page, 'utf8');
  const code = new RegExp(`<!-- test: ${name} -->\\n\\n?\`\`\`js\\n([^]*?)\`\`\``).exec(text)?.[1];
  if (code === undefined) throw new Error(`${page} has no snippet ${name}`);
  return code;
}

/** Runs the code under `<!-- test: NAME -->` of a page as a user would, but against the sources. */
export async function runSnippet(page: string, name: string, redisUrl: string): Promise<Exit> {
  const code = await snippetOf(page, name);
  const folder = await temporaryFolder();
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  const file = join(folder, 'snippet.mjs');
  await writeFile(file, code.replace("'pushpacer'", JSON.stringify(join(root, 'src/index.ts'))));
  return startProcess({ args: [file], env: { REDIS_URL: redisUrl } }).waitForExit();
}
