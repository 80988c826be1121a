import { copyFileSync, existsSync, globSync, mkdirSync, readFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { nodeFault } from '../../../src/domain/node-version.ts';
import { COMMANDS } from '../../../scripts/support/commands.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';

test.each(['24.2.0', '24.21.0', '25.0.0'])('Node %s will do', (version) => {
  expect(nodeFault(version)).toBeUndefined();
});

const ADVICE =
  'run "npm install --save-dev node@24" in the folder of your app; "npx" and "npm run" take that one there, ' +
  'as in "npx node app.js"';

test.each(['24.1.9', '22.22.3', '0.12.0'])('Node %s is too old, and the message says what to do', (version) => {
  expect(nodeFault(version)).toBe(`pushpacer needs Node 24.2 or later, and this is Node ${version}: ${ADVICE}`);
});

test('package.json, the README and the page of the beginning say the same', () => {
  expect(JSON.parse(readFileSync('package.json', 'utf8'))).toMatchObject({ engines: { node: '>=24.2' } });
  for (const page of ['README.md', 'docs/getting-started.md']) {
    expect(readFileSync(page, 'utf8').replaceAll(/\s+/g, ' ').replaceAll('`', '"')).toContain(ADVICE.slice(4));
  }
});

const MAY_BE_OLD = ['/usr/bin/node', '/usr/local/bin/node'];

test('every published program checks the version before it loads the rest', async () => {
  // Below the repository, for its node_modules; not in dist, which another test packs at the same time.
  const out = join(process.cwd(), `node_modules/.cache/pushpacer-build-${process.pid}`);
  await runProgram('node', ['tools/build.ts', '--out', out], process.cwd());
  try {
    const programs = globSync(
      ['scripts/*.js', 'api/{api,token}.js', 'console/{console,serve}.js', 'workers/notifications.js', 'demo/demo.js'],
      { cwd: out },
    ).filter((file) => !file.endsWith('.command.js'));
    expect(programs).toHaveLength(Object.keys(COMMANDS).length); // pushpacer itself too; completion is no program
    for (const program of programs) {
      // Whatever is imported before the first line runs is the check alone, and that imports nothing.
      const text = readFileSync(join(out, program), 'utf8');
      const imports = [...text.matchAll(/^\s*(?:import|export)\b[^(]*?from ['"]([^'"]+)|^import ['"]([^'"]+)/gm)].map(
        (match) => match[1] ?? match[2],
      );
      expect(imports, program).toEqual([expect.stringMatching(/\/support\/node-version\.js$/)]);
    }
    const check = readFileSync(join(out, 'scripts/support/node-version.js'), 'utf8');
    const only = /^import \{ nodeFault \} from ['"]\.\.\/\.\.\/src\/domain\/node-version\.js['"];$/;
    expect(check.match(/\bimport .*/g)).toEqual([expect.stringMatching(only)]);
    const checks = check + readFileSync(join(out, 'src/domain/node-version.js'), 'utf8');
    expect(checks.replace(/\bimport .*/, '')).not.toMatch(/\bimport\b|\?\?=|#[a-z]|await/);
    for (const node of MAY_BE_OLD.filter(existsSync)) {
      const version = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim().slice(1);
      const fault = nodeFault(version);
      if (fault === undefined) continue;
      const [program = ''] = programs;
      const started = spawnSync(node, [join(out, program), '--help'], { encoding: 'utf8' });
      expect(started).toMatchObject({ status: 1, stdout: '', stderr: `error: ${fault}\n` });
      for (const library of ['src/index.js', 'sandbox/index.js']) {
        const used = spawnSync(node, ['--input-type=module', '--eval', `import '${join(out, library)}'`], {
          encoding: 'utf8',
        });
        expect({ library, ...used }).toMatchObject({ library, status: 1, stdout: '' });
        expect(used.stderr).toContain(`\nError: ${fault}\n`);
      }
    }
    expect(await runProgram('node', [join(out, 'scripts/replay.js'), '--help'], await temporaryFolder())).toMatch(
      /^Usage: replay/,
    );
  } finally {
    await runProgram('rm', ['-rf', out], process.cwd());
  }
});

test('a clone without its packages says what to do before it builds or packs', async () => {
  const folder = await temporaryFolder();
  mkdirSync(join(folder, 'tools'));
  for (const file of ['package.json', 'tools/installed.js']) copyFileSync(file, join(folder, file));
  // Without the variables that npm has set for its own script.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')));
  for (const [program, ...args] of [
    ...[...MAY_BE_OLD.filter(existsSync), process.execPath].map((node) => [node, 'tools/installed.js']),
    ['npm', 'pack'],
  ]) {
    const { status, stderr } = spawnSync(program ?? '', args, { cwd: folder, encoding: 'utf8', env });
    expect([program, status === 0]).toEqual([program, false]);
    expect(stderr).toContain('run "npm ci" in it');
  }
});
