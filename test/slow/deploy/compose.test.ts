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
  for (const [right, wrong, at] of [
    ['healthcheck:', 'healthchecks:', '/services/redis'],
    ['start_period:', 'start_time:', '/services/api/healthcheck'],
    ['condition: service_healthy', 'condition: healthy', '/services/worker/depends_on/redis/condition'],
    ['profiles: [console]', 'profiles: console', '/services/console/profiles'],
    ['\nvolumes:', '\nvolume:', ''],
  ] as const) {
    expect(text).toContain(right);
    const faults = faultsBy(validate, composeOf(text.replace(right, wrong)));
    expect([wrong, faults]).toEqual([wrong, expect.arrayContaining([expect.stringMatching(`^${at} must `)])]);
  }
});
