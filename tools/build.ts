import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, globSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, relative } from 'node:path';
import { parseArgs } from 'node:util';

/** Builds the published package: JavaScript and types from tsc, and the files that the code reads at run time. */
function build(out: string): boolean {
  rmSync(out, { recursive: true, force: true });
  const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json', '--outDir', out], { stdio: 'inherit' });
  if (status !== 0) return false;
  const assets = globSync(['{src,sandbox}/**/*.{lua,sh}', 'console/assets/*']);
  if (!assets.some((file) => file.endsWith('.lua'))) throw new Error('expected Lua scripts in src, found none');
  for (const asset of assets) cpSync(asset, `${out}/${asset}`);
  const commands = globSync([
    `${out}/scripts/*.js`,
    `${out}/workers/notifications.js`,
    `${out}/api/{api,token}.js`,
    `${out}/console/{console,serve}.js`,
    `${out}/demo/demo.js`,
  ]);
  for (const file of commands)
    if (basename(file) !== 'pushpacer.js') loadLate(file, `${out}/scripts/support/node-version.js`);
  chmodSync(`${out}/scripts/pushpacer.js`, 0o755);
  return true;
}

/**
 * Renames a command to `enqueue.command.js`, and writes an `enqueue.js` that loads it after the check of Node's version. An old Node reads
 * every import before it runs the first line, and would fail on the first name that it does not know.
 */
function loadLate(file: string, check: string): void {
  const name = basename(file, '.js');
  renameSync(file, `${dirname(file)}/${name}.command.js`);
  writeFileSync(
    file,
    `import './${relative(dirname(file), check)}';

export async function main(argv) {
  const command = await import('./${name}.command.js');
  await command.main(argv);
}

if (import.meta.main) await main(process.argv.slice(2));
`,
  );
}

const { values } = parseArgs({ options: { out: { type: 'string', default: 'dist' } } });
if (!build(values.out)) process.exitCode = 1;
