import { spawnSync } from 'node:child_process';
import { existsSync, globSync } from 'node:fs';
import { access, copyFile, mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../../support/program.ts';

it('no page of the packed package links to a file that is not packed', async () => {
  const folder = await temporaryFolder();
  await runProgram('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], process.cwd());
  const [tarball = 'none'] = globSync('*.tgz', { cwd: folder });
  await runProgram('tar', ['-xzf', tarball], folder);

  const pages = globSync('package/{*,docs/**/*}.md', { cwd: folder });
  expect(pages).toEqual(
    expect.arrayContaining(['README.md', 'CHANGELOG.md', 'docs/errors.md'].map((page) => `package/${page}`)),
  );
  const links: string[] = [];
  const broken: string[] = [];
  for (const page of pages) {
    for (const path of relativeLinks(await readFile(join(folder, page), 'utf8'))) {
      links.push(path);
      await access(join(folder, dirname(page), path)).catch(() => broken.push(`${page}: ${path}`));
    }
  }
  expect(broken).toEqual([]);
  expect(links).toEqual(expect.arrayContaining(['../examples/express.ts', 'docs/notification.schema.json']));
});

/** What a page links to beside itself, without anchors: `[text](path)`, `src="path"`, `href="path"`. */
function relativeLinks(text: string): string[] {
  const links = [...text.matchAll(/\]\(([^)\s]+)\)|\b(?:src|href)="([^"]+)"/g)].map(
    ([, inText, inTag]) => inText ?? inTag ?? '',
  );
  return links.filter((link) => !/^([a-z]+:|#)/.test(link)).map((link) => link.replace(/#.*$/, ''));
}

/** The machine's own Node, which may be too old for the sources, and ours. */
const MAY_BE_OLD = ['/usr/bin/node', '/usr/local/bin/node', process.execPath].filter(existsSync);

it('a clone without its packages says what to do before it builds or packs', async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'tools'));
  for (const file of ['package.json', 'tools/installed.js']) await copyFile(file, join(folder, file));
  // Without the variables that npm has set for its own script.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')));
  for (const [program, ...args] of [...MAY_BE_OLD.map((node) => [node, 'tools/installed.js']), ['npm', 'pack']]) {
    const { status, stderr } = spawnSync(program ?? '', args, { cwd: folder, encoding: 'utf8', env });
    expect([program, status === 0]).toEqual([program, false]);
    expect(stderr).toContain('run "npm ci" in it');
  }
});
