import { expect, test } from 'vitest';
import { startProcess } from '../support/process.ts';
import { folderOf } from '../support/program.ts';

async function checkLinks(files: Readonly<Record<string, string>>): Promise<{ code: number | null; lines: string[] }> {
  const args = ['tools/check-links.ts', '--root', await folderOf(files)];
  const { code, stdout } = await startProcess({ args }).waitForExit();
  return { code, lines: stdout.trim().split('\n') };
}

const GOOD = {
  'README.md': '# Project\n\nSee [the docs](docs/README.md) and [the web](https://example.com/none.md#none).\n',
  'docs/README.md': '# Index\n\n- [Pages](pages.md#who-and-when-the-max_wait)\n- [again](pages.md#again-1)\n',
  'docs/pages.md':
    '# Pages\n\n## Who, and when: the `MAX_WAIT`?\n\n## Again\n\n## Again\n\n[up](#pages), [code](../src/a.ts)\n\n' +
    '```sh\n# [not](a-link.md)\n```\n\n`[nor](this.md)`, [by name][other], <img src="map.svg">\n\n[other]: other.md\n',
  'docs/other.md': '# Other\n',
  'docs/map.svg': '<svg/>',
  'src/a.ts': '// See docs/other.md, and example.com/docs/none.md.\n',
};

test('links to files and headings that are there are let pass, and are counted', async () => {
  expect(await checkLinks(GOOD)).toEqual({ code: 0, lines: ['4 pages, 9 links, 0 faults'] });
});

test('what leads nowhere is found, with its page', async () => {
  const { code, lines } = await checkLinks({
    ...GOOD,
    'docs/pages.md':
      '# Pages\n\n## Who and when the max_wait\n\n## Again\n\n```sh\n## Again\n```\n\n[x](gone.md) [y](#no)\n',
    'CONTRIBUTING.md': '# How\n\n<a href="docs/lost.md">lost</a> and [outside](../secret.md)\n',
    'src/a.ts': "throw new Error('see docs/limits.md');\n",
  });
  expect(lines).toEqual([
    'CONTRIBUTING.md: expected ../secret.md to be a file of the repository, found none',
    'CONTRIBUTING.md: expected docs/lost.md to be a file of the repository, found none',
    'docs/README.md: expected pages.md#again-1 to be a heading of docs/pages.md, found none',
    'docs/pages.md: expected gone.md to be a file of the repository, found none',
    'docs/pages.md: expected #no to be a heading of docs/pages.md, found none',
    'src/a.ts: expected docs/limits.md to be a file of the repository, found none',
    'docs/other.md: expected a way of links from docs/README.md to this page, found none',
    '5 pages, 9 links, 7 faults',
  ]);
  expect(code).toBe(1);
});
