import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openApiDocument } from '../../../api/openapi.ts';
import { openApi } from '../../support/api.ts';
import { documentOf } from '../../support/openapi.ts';
import { exampleFolder, runProgram } from '../../support/program.ts';
import { snippetOf } from '../../support/snippet.ts';
import { strictFaultsIn } from '../../support/strict-typescript.ts';

const { paths } = documentOf(openApiDocument());
const OPERATIONS = Object.entries(paths).flatMap(([path, methods]) =>
  Object.keys(methods).map((name) => `client.${name.toUpperCase()}('${path}'`),
);

// That answers are as the document describes them is held by the tests in test/api and test/operations/faces.test.ts.
it('a client in TypeScript that is generated from /openapi.json compiles under strict, with every operation', async () => {
  const api = await openApi();
  const folder = await exampleFolder();
  const generator = join('node_modules', 'openapi-typescript', 'bin', 'cli.js');
  const types = join(folder, 'openapi.ts');
  await runProgram(process.execPath, [generator, `${api.url}/openapi.json`, '--output', types], folder);
  const program = await readFile('test/slow/api/typed-client.mts.txt', 'utf8');
  expect(OPERATIONS.filter((call) => !program.includes(call))).toEqual([]);
  const shown = await snippetOf('docs/http-api.md', 'typed-client', 'ts');
  expect(strictFaultsIn(folder, program, shown)).toEqual([]);
});
