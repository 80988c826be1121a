import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';

const page = await readFile('docs/guarantees.md', 'utf8');
const [promised = ''] = page.split('## What is not promised');
/** The items of all lists before that, each on one line: the promise, then its tests. */
const rows = promised
  .split(/^(?=- )/m)
  .filter((item) => item.startsWith('- '))
  .map((item) => (item.split(/\n\n/)[0] ?? '').replaceAll(/\s+/g, ' '));

/** `- A promise. - `test/a.test.ts`: "one", "two" - `test/b.test.ts`: "three"` → each test with its file. */
function testsOf(row: string): { file: string; name: string }[] {
  return [...row.matchAll(/`(test\/[^`]+\.ts)`: ((?:"[^"]+"(?:, )?)+)/g)].flatMap(([, file = '', names = '']) =>
    [...names.matchAll(/"([^"]+)"/g)].map(([, name = '']) => ({ file, name })),
  );
}

const tests = rows.flatMap(testsOf);

describe('docs/guarantees.md', () => {
  it('names a test for every promise', () => {
    expect(rows.length).toBeGreaterThan(60);
    for (const row of rows) expect(testsOf(row), row).not.toEqual([]);
  });

  it('leaves no test out of what is looked for here', () => {
    const named = [...promised.matchAll(/`test\/[^`]+\.ts`/g)];
    const counted = tests.filter(({ file }, index) => file !== tests[index - 1]?.file);
    expect(named.length).toBeGreaterThanOrEqual(counted.length);
    expect(new Set(named.map(([file]) => file))).toEqual(new Set(tests.map(({ file }) => `\`${file}\``)));
  });

  it.each(tests)('is right that $file has "$name"', async ({ file, name }) => {
    const source = await readFile(file, 'utf8');
    const quoted = [`'${name.replaceAll("'", String.raw`\'`)}'`, `\`${name}\``, `"${name}"`];
    expect(quoted.some((literal) => source.includes(literal))).toBe(true);
  });
});
