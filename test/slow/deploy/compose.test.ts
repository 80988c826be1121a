import { readFile } from 'node:fs/promises';
import { Ajv } from 'ajv';
import { expect, test } from 'vitest';
import { composeOf } from '../../house/compose.ts';
import { faultsBy } from '../../support/json-schema.ts';

/** The schema of the Compose Specification (Apache-2.0), as the package dclint has it. Its formats are Docker's own. */
const schema = JSON.parse(
  await readFile('test/slow/node_modules/dclint/schemas/compose.schema.json', 'utf8'),
) as Record<string, unknown>;
const ajv = new Ajv({ allErrors: true, strict: false, validateFormats: false });
const validate = ajv.compile({ ...schema, $schema: 'http://json-schema.org/draft-07/schema' }); // draft-07's own name

test('the compose file is what Compose takes, and a misspelled name in it would be found', async () => {
  const text = await readFile('docker-compose.yml', 'utf8');
  expect(faultsBy(validate, composeOf(text))).toEqual([]);
  const faults = faultsBy(validate, composeOf(text.replace('start_period:', 'start_time:')));
  expect(faults).toEqual([expect.stringMatching('^/services/api/healthcheck must ')]);
});
