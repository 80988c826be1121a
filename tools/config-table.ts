import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { CONFIG_VARIABLES } from '../src/config/variables.ts';

const FILE = new URL('../README.md', import.meta.url);
const BLOCK = /(<!-- config:start -->\n)[^]*(<!-- config:end -->)/;

/** The README's table of variables, from the schema that reads them. */
function table(): string {
  const rows = CONFIG_VARIABLES.map(({ name, default: value, meaning }) => {
    return `| \`${name}\` | ${value === undefined ? '' : `\`${value}\``} | ${meaning} |`;
  });
  return ['', '| variable | default | meaning |', '|---|---|---|', ...rows, '', ''].join('\n');
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
const before = await readFile(FILE, 'utf8');
if (!BLOCK.test(before)) throw new Error('README.md has no <!-- config:start --> … <!-- config:end -->');
const after = before.replace(BLOCK, (_, start: string, end: string) => `${start}${table()}${end}`);
if (!values.check) {
  await writeFile(FILE, after);
} else if (after !== before) {
  process.stderr.write("README.md's table of variables is not what npm run config-table writes\n");
  process.exitCode = 1;
}
