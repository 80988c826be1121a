import { spawnSync } from 'node:child_process';
import { delimiter } from 'node:path';
import { CommandError } from '../src/terminal/command.ts';
import { installAll } from './install.ts';

/** The steps of `npm run check`, the fastest first. Each is a program that ends with 0 if all is well. */
const STEPS: readonly (readonly [name: string, program: string, ...args: string[]])[] = [
  ['format', 'prettier', '--check', '--log-level', 'warn', '.'],
  ['types', 'tsc', '-p', '.'],
  ['lint', 'eslint', '--max-warnings', '0', '.'],
  ['unused', 'knip'],
  ['imports', 'node', 'tools/check-imports.ts'],
  ['schema', 'node', 'tools/schema.ts', '--check'],
  ['readme', 'node', 'tools/config-table.ts', '--check'],
  ['capacity', 'node', 'tools/capacity-pages.ts', '--check'],
  ['links', 'node', 'tools/check-links.ts'],
  ['api', 'typedoc', '--emit', 'none', '--skipErrorChecking'],
  ['build', 'node', 'tools/build.ts'],
  ['package', 'publint', '--strict'],
];

const env = {
  ...process.env,
  PATH: `node_modules/.bin${delimiter}tools/node_modules/.bin${delimiter}${process.env['PATH'] ?? ''}`,
};

/** One line a step; stops at the first that fails, with its output. */
function check(): boolean {
  for (const [name, program, ...args] of STEPS) {
    const start = performance.now();
    const { status, error, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', env, stdio: 'pipe' });
    const seconds = ((performance.now() - start) / 1_000).toFixed(1);
    process.stdout.write(`${status === 0 ? 'ok    ' : 'failed'}  ${name.padEnd(8)} ${seconds.padStart(5)} s\n`);
    if (status === 0) continue;
    process.stdout.write(`${[program, ...args].join(' ')}\n${error ? String(error) : stdout + stderr}`);
    return false;
  }
  return true;
}

try {
  await installAll((line) => process.stdout.write(`${line}\n`));
  if (!check()) process.exitCode = 1;
} catch (error) {
  if (!(error instanceof CommandError)) throw error;
  process.stdout.write(`${error.message}\n`);
  process.exitCode = 1;
}
