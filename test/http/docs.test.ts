import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';

it('every snippet of docs/http.md is part of an example, and so is run', async () => {
  const docs = await readFile('docs/http.md', 'utf8');
  const examples = await Promise.all(['express', 'fastify'].map((name) => readFile(`examples/${name}.ts`, 'utf8')));
  const snippets = [...docs.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code ?? '');
  expect(snippets).toHaveLength(2);
  for (const [index, snippet] of snippets.entries()) expect(examples[index]).toContain(snippet);
});
