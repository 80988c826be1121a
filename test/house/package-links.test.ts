import { globSync } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { runProgram, temporaryFolder } from '../support/program.ts';

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

it('says where its sources, its issues and its page are', async () => {
  const { repository, bugs, homepage } = JSON.parse(await readFile('package.json', 'utf8')) as Record<string, unknown>;
  const home = 'https://github.com/pushpacer/pushpacer';
  expect({ repository, bugs, homepage }).toEqual({
    repository: { type: 'git', url: `git+${home}.git` },
    bugs: `${home}/issues`,
    homepage: `${home}#readme`,
  });
});

/** What a page links to beside itself, without anchors: `[text](path)`, `src="path"`, `href="path"`. */
function relativeLinks(text: string): string[] {
  const links = [...text.matchAll(/\]\(([^)\s]+)\)|\b(?:src|href)="([^"]+)"/g)].map(
    ([, inText, inTag]) => inText ?? inTag ?? '',
  );
  return links.filter((link) => !/^([a-z]+:|#)/.test(link)).map((link) => link.replace(/#.*$/, ''));
}
