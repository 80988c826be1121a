import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, globSync, rmSync } from 'node:fs';
import { parseArgs } from 'node:util';

/** Builds the published package: JavaScript and types from tsc, and the files that the code reads at run time. */
function build(out: string): boolean {
  rmSync(out, { recursive: true, force: true });
  const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json', '--outDir', out], { stdio: 'inherit' });
  if (status !== 0) return false;
  const assets = globSync(['src/**/*.{lua,sh}', 'examples/*.{ndjson,json}']);
  if (!assets.some((file) => file.endsWith('.lua'))) throw new Error('expected Lua scripts in src, found none');
  for (const asset of assets) cpSync(asset, `${out}/${asset}`);
  chmodSync(`${out}/scripts/pushpacer.js`, 0o755);
  return true;
}

const { values } = parseArgs({ options: { out: { type: 'string', default: 'dist' } } });
if (!build(values.out)) process.exitCode = 1;
