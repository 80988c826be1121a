import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { commandsUsed } from '../../scripts/doctor/permissions.ts';
import { API_VARIABLES, CONFIG_VARIABLES, CONSOLE_VARIABLES } from '../../src/config/variables.ts';
import * as sandbox from '../../sandbox/index.ts';
import { readmeTable } from '../../bench/readme/suite.ts';
import * as library from '../../src/index.ts';
import { PROVIDERS } from '../../src/providers/registry.ts';

const PAGES = await Promise.all(
  globSync('{docs/*,CONTRIBUTING,README}.md')
    .sort()
    .map(async (page) => ({ page, text: await readFile(page, 'utf8') })),
);
const textOf = (page: string) => PAGES.find((each) => each.page === page)?.text ?? '';

describe('names in the documentation', () => {
  const spans = PAGES.flatMap(({ page, text }) =>
    [...withoutFences(text).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => ({ page, code })),
  );
  /** Names that are not a variable of a worker, a word of a provider or an export of the package. */
  const OTHERS = [
    'NODE_TLS_REJECT_UNAUTHORIZED',
    'NODE_OPTIONS',
    'NO_COLOR',
    'FORCE_COLOR',
    'HTTPS_PROXY',
    'REFUSED_STREAM',
    'LIMIT_RULE',
    'SANDBOX_URL',
    'SANDBOX_PORT',
    'COPY_URL',
    'NEW_URL',
    'NO_DEFAULT_CREDENTIALS',
  ];

  it('in capitals are variables that a worker reads, words of a provider, exports, or known others', () => {
    const words = Object.values(PROVIDERS).flatMap(({ answers }) => Object.keys(answers.words));
    const known = new Set([
      ...[...CONFIG_VARIABLES, ...API_VARIABLES, ...CONSOLE_VARIABLES].map(({ name }) => name),
      ...words,
      ...Object.keys({ ...library, ...sandbox }),
      ...OTHERS,
    ]);
    const named = spans.flatMap(({ page, code }) =>
      [...code.matchAll(/(?<![\w/])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?!\w)/g)].map(([name]) => ({ page, name })),
    );
    expect(named.length).toBeGreaterThan(50);
    const isOfOpenTelemetry = (name: string) => /^OTEL_(?!PUSHPACER_)/.test(name);
    expect(named.filter(({ name }) => !known.has(name) && !isOfOpenTelemetry(name))).toEqual([]);
  });

  it('of files are those of files that are there', () => {
    const exclude = ['**/node_modules/**', 'dist/**'];
    const files = globSync(
      ['*.md', '{docs,src,sandbox,api,console,workers,scripts,demo,chaos,tools,test,bench,examples}/**/*.*'],
      {
        exclude,
      },
    );
    const named = spans.flatMap(({ page, code }) =>
      [...code.matchAll(/(?<![\w./<>…*-])[\w-][\w./-]*\.(?:ts|md|lua)(?![\w./])/g)].map(([name]) => ({ page, name })),
    );
    expect(named.length).toBeGreaterThan(50);
    const missing = named.filter(({ name }) => !files.some((file) => file === name || file.endsWith(`/${name}`)));
    expect(missing).toEqual([]);
  });
});

describe('docs/errors.md', () => {
  /** What the first column of the table under this heading has in backticks. */
  function firstColumn(heading: string): string[] {
    const section =
      textOf('docs/errors.md')
        .split(/^##+ /m)
        .find((each) => each.startsWith(`${heading}\n`)) ?? '';
    return [...section.matchAll(/^\| `([^`]+)` +\|/gm)].map(([, name]) => name ?? '');
  }

  it('every error class that is exported has a section, which names its fields', () => {
    const exported: readonly unknown[] = Object.values(library);
    const names = exported.filter(isErrorClass).map(({ name }) => name);
    expect(names.length).toBeGreaterThan(2);
    for (const name of names) expect(firstColumn(name)).toEqual(expect.arrayContaining(['name', 'message']));
    const sections = [...textOf('docs/errors.md').matchAll(/^## (\w+Error)$/gm)].map(([, name]) => name);
    expect(sections.toSorted()).toEqual(names.toSorted());
  });

  it('every reason of a dead letter has a line, in their order', () => {
    expect(firstColumn('Reasons of dead letters')).toEqual([...library.DEAD_LETTER_REASONS]);
  });

  it('every text that the message of an InputError of the library begins with has a line', async () => {
    const files = globSync('src/{http,limiter,producer,queue,quota,redis}/**/*.ts');
    const sources = await Promise.all(files.map((file) => readFile(file, 'utf8')));
    const begun = sources.flatMap((text) =>
      [...text.matchAll(/(?:InputError|throwAll)\('([^']+)'/g)].map(([, what]) => what),
    );
    expect(
      firstColumn('InputError')
        .filter((what) => what.includes(' '))
        .toSorted(),
    ).toEqual([...new Set(begun)].toSorted());
  });

  function isErrorClass(value: unknown): value is { readonly name: string } {
    return typeof value === 'function' && value.prototype instanceof Error;
  }
});

it.each([
  ['docs/http.md', 2, ['express', 'fastify']],
  ['docs/moving-over.md', 1, ['rolling-rate-limiter']],
  ['docs/testing.md', 2, ['your-app.test']],
])('every snippet of %s in TypeScript is part of an example, which is run', async (page, count, names) => {
  const examples = await Promise.all(names.map((name) => readFile(`examples/${name}.ts`, 'utf8')));
  const snippets = [...textOf(page).matchAll(/```ts\n([^]*?)```/g)].map(([, code = '']) => code);
  const ofAnApp = snippets.filter((code) => !code.includes('Cluster')); // the one of a cluster needs no app
  expect(ofAnApp).toHaveLength(count);
  expect(ofAnApp.filter((snippet) => !examples.some((example) => example.includes(snippet)))).toEqual([]);
});

it('the page of operators has as many commands of Redis as doctor counts', () => {
  const [, count] = /may call all (\d+) commands/.exec(textOf('docs/operations.md')) ?? [];
  expect(Number(count)).toBe(commandsUsed(['queue', 'limiter']).length);
});

it('the README names no npm script that is missing', async () => {
  const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
  const named = [...textOf('README.md').matchAll(/npm run (?:--silent )?([a-z:-]+)/g)].map(([, name]) => name ?? '');
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter((name) => !(name in scripts))).toEqual([]);
});

function withoutFences(text: string): string {
  return text.replace(/^ *```[^\n]*\n[^]*?^ *```$/gm, '');
}

it("the README's table of measurements is what `npm run bench readme` prints, with the throughput of the page of benchmarks", () => {
  const page = textOf('docs/benchmarks.md').replaceAll(/\s+/g, ' ');
  const found = (text: RegExp): number[] => (text.exec(page) ?? []).slice(1).map(Number);
  const median = (ms: number, name: string): number =>
    found(new RegExp(String.raw`\| ${ms} ms \| ${name} \| ([\d.]+) \| [\d.]+ times`))[0] ?? NaN;
  const spread = /were ([\d.]+) to ([\d.]+) with answers after 0 ms, and ([\d.]+) to ([\d.]+) after 40 ms/;
  const [least0 = NaN, most0 = NaN, least40 = NaN, most40 = NaN] = found(spread);
  const table = readmeTable({
    ...{ demoRuns: 2, makespanRatio: [1, 1.01], requeuesPerBlocked: [1], minGapMs: [232, 245], pairs: 5 },
    ...{ at40ms: [least40, most40], at0ms: [least0, most0] },
    medians: {
      ...{ apns40ms: median(40, 'APNs'), fcm40ms: median(40, 'FCM') },
      ...{ apns: median(0, 'APNs'), fcm: median(0, 'FCM') },
    },
    ...{ limiterRuns: 3, vsSet: [0.5, 0.6], vsRolling: [3], vsFlexible: [1.5, 1.4] },
  });
  const lines = textOf('README.md').split('\n');
  const first = lines.indexOf(table[0] ?? '');
  const shown = lines.slice(first, first + table.length + 1);
  /** Numbers differ from machine to machine, and whether the least and the most are written alike. */
  const shapeOf = (line: string) => line.replaceAll(/\d+(\.\d+)?( to \d+(\.\d+)?)?/g, '0');
  expect(shown.map(shapeOf)).toEqual([...table.map(shapeOf), '']);
  expect(shown[4]).toBe(table[4]);
  expect(textOf('docs/comparison.md')).not.toMatch(/\d of a plain worker at|\d times as many asks/);
});
