import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { expect, it, onTestFinished } from 'vitest';
import * as exported from '../../src/index.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { runSnippet, snippetOf } from '../support/snippet.ts';
import { strictFaults } from '../support/strict-typescript.ts';

const PAGE = 'docs/errors.md';
const page = await readFile(PAGE, 'utf8');
/** Nobody listens on port 1. */
const NOWHERE = 'redis://127.0.0.1:1';

/** What the first column of the table under this heading has in backticks. */
function firstColumn(heading: string): string[] {
  const section = page.split(/^##+ /m).find((each) => each.startsWith(`${heading}\n`)) ?? '';
  return [...section.matchAll(/^\| `([^`]+)` +\|/gm)].map(([, name]) => name ?? '');
}

it('every error class that is exported has a section, which names its fields', () => {
  expect(errorClasses().length).toBeGreaterThan(2);
  for (const name of errorClasses()) expect(firstColumn(name)).toEqual(expect.arrayContaining(['name', 'message']));
  expect([...page.matchAll(/^## (\w+Error)$/gm)].map(([, name]) => name).toSorted()).toEqual(errorClasses());
});

it('every reason of a dead letter has a line, in their order', () => {
  expect(firstColumn('Reasons of dead letters')).toEqual([...exported.DEAD_LETTER_REASONS]);
});

it('every text that the message of an InputError of the library begins with has a line', async () => {
  const files = globSync('src/{http,limiter,queue,quota,redis}/**/*.ts');
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

it.each([
  ['input-error', 'devices[0].token: an APNs device token: 2 to 512 hexadecimal digits\nbadge: at least 0\n'],
  ['redis-away', 'Redis is away: 127.0.0.1:1 (connect ECONNREFUSED 127.0.0.1:1)\n'.repeat(3)],
  ['limiter-unavailable', "not now: the limiter's Redis did not answer within 500 ms\n"],
  ['http-refusal', '429 60 Quota Exceeded\n'],
])('what it shows for %s happens as it says, without a Redis', async (name, stdout) => {
  expect(await runSnippet(PAGE, name, NOWHERE)).toMatchObject({ code: 0, stdout, stderr: '' });
});

it.each([
  ['redis-away', 'added\n'],
  ['limiter-unavailable', 'admitted\n'],
])('what it shows for %s works with a Redis too', async (name, stdout) => {
  const redis = await startEmbeddedRedis();
  onTestFinished(() => redis.close());
  expect(await runSnippet(PAGE, name, redis.url)).toMatchObject({ code: 0, stdout, stderr: '' });
});

const TYPED = ['input-error', 'redis-away', 'limiter-unavailable'];

it.each(TYPED)('strict TypeScript takes what it shows for %s', async (name) => {
  expect(strictFaults(await snippetOf(PAGE, name))).toEqual([]);
});

it('has no snippet that is not run', () => {
  const names = [...page.matchAll(/<!-- test: ([a-z-]+) -->\n\n```js/g)].map(([, name]) => name);
  expect(names).toEqual([...TYPED, 'http-refusal']); // there the type of a request is the application's
  expect(page.match(/```(js|ts)\n/g)).toHaveLength(names.length);
});

/** The names of the exported classes of errors. */
function errorClasses(): string[] {
  const values: readonly unknown[] = Object.values(exported);
  return values
    .filter((value) => typeof value === 'function')
    .filter(isErrorClass)
    .map(({ name }) => name)
    .toSorted();
}

function isErrorClass({ prototype }: { readonly prototype: unknown }): boolean {
  return prototype instanceof Error;
}
