import { globSync } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../src/sandbox/redis/embedded-redis.ts';
import { runSnippet } from '../support/snippet.ts';

const PAGES = globSync('{docs/*,CONTRIBUTING,README}.md');

it('every page links to files that are there', async () => {
  expect(PAGES.length).toBeGreaterThan(8);
  for (const page of PAGES) {
    const text = await readFile(page, 'utf8');
    const links = [...text.matchAll(/\]\(([^)#:]+)\)/g)].map(([, path]) => join(dirname(page), path ?? ''));
    await Promise.all(links.map((path) => access(path)));
  }
});

it.each([
  ['docs/limiter.md', 'limiter-library', 'admitted newsletters:1/1d 0\n'],
  ['docs/limiter.md', 'limiter-moved', 'msg-1 24 hours earlier\n'],
  ['docs/quota.md', 'quota', 'taken 599999\n'],
])('what %s shows is answered as it says', async (page, name, answer) => {
  const redis = await startEmbeddedRedis();
  onTestFinished(() => redis.close());
  const { code, stdout } = await runSnippet(page, name, redis.url);
  expect({ code, stdout }).toEqual({ code: 0, stdout: answer });
});

it('every snippet of docs/http.md is part of an example, and so is run', async () => {
  const docs = await readFile('docs/http.md', 'utf8');
  const examples = await Promise.all(['express', 'fastify'].map((name) => readFile(`examples/${name}.ts`, 'utf8')));
  const snippets = [...docs.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code ?? '');
  expect(snippets).toHaveLength(2);
  for (const [index, snippet] of snippets.entries()) expect(examples[index]).toContain(snippet);
});
