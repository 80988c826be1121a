import { readFile, writeFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { example, magnitude, parsePlan } from '../bench/capacity/example.ts';
import { MEASURED } from '../bench/capacity/model.ts';

/** `node tools/capacity-pages.ts [--check]`: writes what pages say of the capacity model anew, or says whether it is the model's. */
const PAGES: Readonly<Record<string, (text: string) => string>> = {
  'docs/scaling.md': (text) => withRows(withExamples(text)),
  'docs/capacity.md': withConstants,
};

/** The answer below each `npm run bench capacity -- --model …`, without the plan. */
function withExamples(text: string): string {
  const asked = /(npm run bench capacity -- --model (.+)\n```\n\n```text\n)[^`]*```/g;
  return replacedAll(text, asked, (_, command: string, plan: string) => {
    const [, needs = ''] = example(parsePlan(plan.split(' '))).text.split('\n\n');
    return `${command}${needs.replaceAll(/ +$/gm, '')}\n\`\`\``;
  });
}

/** The cells behind the plan of each row. */
function withRows(text: string): string {
  return replacedAll(text, /^(\| [^|]+\| `(.+)` +\|).*$/gm, (_, before: string, plan: string) => {
    return `${before} ${magnitude(parsePlan(plan.split(' '))).join(' | ')} |`;
  });
}

/** The number before the name of each constant of the model. Every constant has one row. */
function withConstants(text: string): string {
  const left = new Map(constants(MEASURED));
  const written = replacedAll(
    text,
    /^(\| [^|]+\|) +[\d.,]+ (\| `([\w.]+)` +\|)$/gm,
    (row, before, after, name: string) => {
      const value = left.get(name);
      left.delete(name);
      return value === undefined
        ? row
        : `${before} ${value.toLocaleString('en', { maximumFractionDigits: 6 })} ${after}`;
    },
  );
  if (left.size > 0) throw new Error(`docs/capacity.md: expected one row for each of ${[...left.keys()].join(', ')}`);
  return written;
}

/** `[['atOnce.queue.inBytes', 970], …]` */
function constants(of: object, before = ''): [string, number][] {
  return Object.entries(of).flatMap(([name, value]: [string, number | object]) =>
    typeof value === 'number' ? [[before + name, value]] : constants(value, `${before}${name}.`),
  );
}

function replacedAll(text: string, pattern: RegExp, by: (match: string, ...groups: string[]) => string): string {
  if (text.match(pattern) === null) throw new Error(`expected a match of ${String(pattern)}, found none`);
  return text.replaceAll(pattern, by);
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
for (const [page, written] of Object.entries(PAGES)) {
  const before = await readFile(page, 'utf8');
  const after = await format(written(before), { ...(await resolveConfig(page)), parser: 'markdown' });
  if (!values.check) {
    await writeFile(page, after);
  } else if (after !== before) {
    process.stderr.write(`${page} has other numbers of the capacity model than npm run config-table writes\n`);
    process.exitCode = 1;
  }
}
